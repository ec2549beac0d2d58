//! What a test asks of the device.

use std::collections::VecDeque;

/// What the device is to do.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// Refuses the CQP (CCQP_ERR).
    pub(crate) refuse_cqp: bool,
    /// Never answers the creation of the CQP.
    pub(crate) silent_cqp: bool,
    /// Never lets go of the CQP.
    pub(crate) keeps_cqp: bool,
    /// Takes commands and never completes one.
    pub(crate) silent: bool,
    /// Completes nothing from this command on (0: the first).
    pub(crate) silent_from: Option<u64>,
    /// Steps between taking a command and completing it.
    pub(crate) steps: u32,
    /// Every command from this one on fails.
    pub(crate) fail_from: Option<u64>,
    /// Every command of this opcode fails.
    pub(crate) fail_op: Option<u8>,
    /// PFPE_CQPERRCODES of a command that failed.
    pub(crate) codes: u32,
    /// CQP_OP_ERR and the codes stay after a command that failed.
    pub(crate) sticky_error: bool,
    /// Register accesses from this one on answer all-ones.
    pub(crate) gone_after: Option<u64>,
    /// Reply of QUERY_FPM_VAL.
    pub(crate) fpm: [u64; 25],
    /// Feature list.
    pub(crate) features: Vec<u64>,
    /// CQEs put on the CCQ before the next good one: (cookie xor, index add).
    pub(crate) bad_entries: VecDeque<(u64, u64)>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            refuse_cqp: false,
            silent_cqp: false,
            keeps_cqp: false,
            silent: false,
            silent_from: None,
            steps: 1,
            fail_from: None,
            fail_op: None,
            codes: 0xFFFF_8002,
            sticky_error: false,
            gone_after: None,
            fpm: reply(),
            features: vec![3 << 32 | 1 << 16 | 50, 1 << 48 | 2, 32 << 48 | 1],
            bad_entries: VecDeque::new(),
        }
    }
}

/// QUERY_FPM_VAL of a device with a little of everything.
pub(crate) fn reply() -> [u64; 25] {
    let mut reply = [0; 25];
    let objects = [
        (8, 10, 1024u64),
        (16, 7, 2048),
        (32, 6, 4096),
        (40, 6, 256),
        (48, 6, 16384),
        (56, 6, 65536),
        (72, 6, 1 << 18),
        (88, 6, 8192),
        (96, 8, 512),
        (104, 6, 1024),
        (128, 6, 32768),
        (144, 6, 1024),
        (152, 6, 4096),
    ];
    for (offset, log2, max) in objects {
        reply[offset / 8] = max | log2 << 32;
    }
    for (offset, max) in [(64, 8192), (80, 1 << 15), (136, 4096)] {
        reply[offset / 8] = max | 8 << 32;
    }
    reply[14] = 1 << 20;
    reply[0] = 64 << 32;
    reply[15] = 32 | 1 << 16 | 256 << 32;
    reply
}
