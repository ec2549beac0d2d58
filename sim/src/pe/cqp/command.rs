//! A CQP command: its words, the bits it defines, and its outcome.

use crate::findings::kind;
use crate::pe::device::Unreachable;
use crate::pe::env::Env;
use crate::pe::word::{bit, bits8, mask};

/// The 64 bytes of a CQP WQE.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Command(pub(crate) [u64; 8]);

impl Command {
    /// The qword at byte `offset`: `q(24)` is q24 of the reference.
    pub(crate) fn q(&self, offset: usize) -> u64 {
        self.0.get(offset / 8).copied().unwrap_or(0)
    }

    /// The header, q24.
    pub(crate) fn header(&self) -> u64 {
        self.0[3]
    }

    /// Opcode (control-path 4.6).
    pub(crate) fn opcode(&self) -> u8 {
        bits8(self.header(), 37, 32)
    }

    /// The valid bit.
    pub(crate) fn valid(&self) -> bool {
        bit(self.header(), 63)
    }
}

/// Results of a successful command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reply {
    /// OPRETVAL.
    pub(crate) value: u32,
    /// MINERR of a successful completion (FLUSH_WQES, SUSPEND_QP).
    pub(crate) minor: u16,
}

/// Error codes of a failed command: MAJERR and MINERR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) major: u16,
    pub(crate) minor: u16,
}

/// Outcome of a command.
pub(crate) type Outcome = Result<Reply, Refusal>;

/// A command that returns nothing.
pub(crate) const DONE: Outcome = Ok(Reply { value: 0, minor: 0 });

/// "Error, see minor" (control-path 4.5).
const MAJOR_ERROR: u16 = 0xFFFF;
/// "Object-cache error"; that missing backing causes it is \[inf object_cache: from the name\].
const MAJOR_OBJECT_CACHE: u16 = 0xF000;
/// STag invalid.
const MINOR_STAG_INVALID: u16 = 0x0001;
const MINOR_INVALID_STATE: u16 = 0x8002;
/// Flush, no WQE pending.
const MINOR_NOTHING_TO_FLUSH: u16 = 0x8006;
/// Most minor codes are not in the sources (control-path 12); this stands for all of them.
const MINOR_UNNAMED: u16 = 0x80FF;

impl From<Unreachable> for Refusal {
    fn from(_: Unreachable) -> Self {
        Self {
            major: MAJOR_OBJECT_CACHE,
            minor: 0,
        }
    }
}

impl Refusal {
    /// Fails without a finding: on purpose, or because of a race that the driver cannot see.
    pub(crate) fn silent(minor: u16) -> Self {
        Self {
            major: MAJOR_ERROR,
            minor,
        }
    }

    /// The failure a test asked for.
    pub(crate) fn injected() -> Self {
        Self::silent(MINOR_UNNAMED)
    }

    /// Invalid state, without a finding.
    pub(crate) fn state_race() -> Self {
        Self::silent(MINOR_INVALID_STATE)
    }

    /// Nothing to flush, without a finding.
    pub(crate) fn nothing_to_flush() -> Self {
        Self::silent(MINOR_NOTHING_TO_FLUSH)
    }

    /// A field value that the device cannot work with.
    pub(crate) fn parameter(env: &mut dyn Env, text: impl Into<String>) -> Self {
        env.finding(kind::CQP_PARAMETER, text.into());
        Self::silent(MINOR_UNNAMED)
    }

    /// An object in the wrong state, or one that is missing or exists when it should not.
    pub(crate) fn state(env: &mut dyn Env, text: impl Into<String>) -> Self {
        env.finding(kind::CQP_STATE, text.into());
        Self::silent(MINOR_INVALID_STATE)
    }

    /// An STag that is not allocated.
    pub(crate) fn stag(env: &mut dyn Env, text: impl Into<String>) -> Self {
        env.finding(kind::CQP_STAG, text.into());
        Self::silent(MINOR_STAG_INVALID)
    }

    /// A command that the device does not know.
    pub(crate) fn opcode(env: &mut dyn Env, text: impl Into<String>) -> Self {
        env.finding(kind::CQP_OPCODE, text.into());
        Self::silent(MINOR_UNNAMED)
    }
}

/// Name and defined bits of a command (control-path 4.7 to 4.16, 6.3 to 6.6).
pub(crate) struct Format {
    pub(crate) opcode: u8,
    pub(crate) name: &'static str,
    /// q0, q8, q16, q24 without opcode and VALID, q32, q40, q48, q56.
    words: [u64; 8],
}

const ALL: u64 = u64::MAX;
const fn m(high: u32, low: u32) -> u64 {
    mask(high, low)
}
const fn f(opcode: u8, name: &'static str, words: [u64; 8]) -> Format {
    Format {
        opcode,
        name,
        words,
    }
}

/// Words of the address handle commands.
const AH: [u64; 8] = [
    m(63, 16),
    m(15, 0) | m(39, 32) | m(63, 48),
    m(27, 0) | m(39, 32) | m(63, 48),
    m(23, 0) | m(60, 59) | m(62, 62),
    ALL,
    ALL,
    ALL,
    ALL,
];
/// Words of the multicast commands.
const MG: [u64; 8] = [
    m(47, 0),
    m(5, 0),
    m(9, 0) | m(43, 32),
    m(12, 0) | m(60, 59),
    ALL,
    0,
    ALL,
    ALL,
];

/// Every command with a format.
#[rustfmt::skip]
static FORMATS: &[Format] = &[
    f(0x00, "CREATE_QP", [0, 0, ALL, m(23, 0) | m(43, 42) | m(51, 45) | m(62, 59), 0, ALL, 0, 0]),
    f(0x01, "MODIFY_QP",
        [0, m(45, 32) | m(51, 48), ALL, m(23, 0) | m(52, 42) | m(62, 55), 0, ALL, 0, 0]),
    f(0x02, "DESTROY_QP", [0, 0, ALL, m(23, 0) | m(50, 48) | m(55, 54), 0, ALL, 0, 0]),
    f(0x03, "CREATE_CQ", [m(20, 0), m(62, 0), m(17, 0), m(18, 0) | m(31, 22) | m(52, 44) | m(61, 54), ALL, ALL,
        m(27, 0), m(23, 0)]),
    f(0x04, "MODIFY_CQ", [m(20, 0), m(62, 0), m(17, 0), m(18, 0) | m(48, 43) | m(61, 60), ALL, ALL, m(27, 0),
        m(23, 0)]),
    f(0x05, "DESTROY_CQ", [m(20, 0), m(62, 0), 0, m(18, 0) | m(31, 22) | m(45, 44) | m(49, 47) | m(61, 60), 0, ALL,
        m(27, 0), 0]),
    f(0x09, "ALLOC_STAG", [0, ALL, m(31, 8) | m(59, 54), m(48, 42) | m(53, 49) | m(58, 58) | m(61, 60), 0,
        m(15, 0), m(27, 0), 0]),
    f(0x0a, "REG_MR", [ALL, ALL, m(31, 0) | m(59, 54), m(53, 43) | m(61, 59), ALL, m(15, 0), m(27, 0), 0]),
    f(0x0d, "DEALLOC_STAG", [0, m(63, 46), m(31, 8) | m(59, 54), m(43, 43), 0, 0, 0, 0]),
    f(0x0e, "MANAGE_LOC_MAC_TABLE", [0, 0, 0, m(5, 0) | m(62, 61), m(47, 0), 0, 0, 0]),
    f(0x0f, "MANAGE_ARP", [0, m(31, 0), m(47, 0), m(11, 0) | m(44, 42), 0, 0, 0, 0]),
    f(0x11, "MANAGE_PUSH_PAGES", [0, 0, m(9, 0), m(31, 0) | m(62, 60), 0, 0, 0, 0]),
    f(0x12, "QUERY_RDMA_FEATURES", [0, 0, 0, m(31, 0), ALL, 0, 0, 0]),
    f(0x13, "UPLOAD_CONTEXT", [0, 0, ALL, m(23, 0) | m(51, 48) | m(62, 61), 0, 0, 0, 0]),
    f(0x14, "ALLOCATE_LOC_MAC_TABLE_ENTRY", [0; 8]),
    f(0x15, "MANAGE_HMC_PM_FUNC_TABLE", [0, 0, 0, m(15, 0) | m(62, 62), 0, 0, 0, 0]),
    f(0x16, "CREATE_CEQ", [0, 0, m(21, 0), m(15, 0) | m(47, 44) | m(60, 60), ALL, 0, m(27, 0), m(23, 0)]),
    f(0x18, "DESTROY_CEQ", [0, 0, m(21, 0), m(9, 0) | m(47, 47) | m(45, 44) | m(60, 60), 0, 0, m(27, 0), 0]),
    f(0x19, "CREATE_AEQ", [0, 0, m(18, 0), m(45, 44) | m(47, 47), ALL, 0, m(27, 0), 0]),
    f(0x1b, "DESTROY_AEQ", [0, 0, m(18, 0), m(45, 44) | m(47, 47), 0, 0, m(27, 0), 0]),
    f(0x1c, "CREATE_ADDR_HANDLE", AH),
    f(0x1d, "MODIFY_ADDR_HANDLE", AH),
    f(0x1e, "DESTROY_ADDR_HANDLE", AH),
    f(0x1f, "UPDATE_PE_SDS", [m(31, 0), ALL, ALL, m(3, 0) | m(7, 7), m(31, 0) | m(63, 63), ALL, m(31, 0) | m(63, 63),
        ALL]),
    f(0x20, "QUERY_FPM_VAL", [0, 0, m(5, 0), 0, ALL, 0, 0, 0]),
    f(0x21, "COMMIT_FPM_VAL", [0, 0, m(5, 0), m(31, 0), ALL, 0, 0, 0]),
    f(0x22, "FLUSH_WQES", [0, m(19, 0), ALL, m(23, 0) | m(62, 59), 0, 0, 0, 0]),
    f(0x23, "MANAGE_APBVT", [0, 0, m(15, 0), m(62, 62), 0, 0, 0, 0]),
    f(0x25, "MANAGE_QUAD_HASH_TABLE_ENTRY", [m(47, 0), m(49, 0), m(9, 0) | m(43, 32), m(44, 42) | m(62, 59), ALL,
        ALL, ALL, ALL]),
    f(0x26, "CREATE_MCAST_GRP", MG),
    f(0x27, "MODIFY_MCAST_GRP", MG),
    f(0x28, "DESTROY_MCAST_GRP", MG),
    f(0x29, "SUSPEND_QP", [0, 0, 0, m(23, 0), 0, 0, 0, 0]),
    f(0x2a, "RESUME_QP", [0, 0, m(31, 0), m(23, 0), 0, 0, 0, 0]),
    f(0x2b, "SHMC_PAGES_ALLOCATED", [0, 0, m(5, 0), 0, 0, 0, 0, 0]),
    f(0x2c, "WORK_SCHED_NODE", [0, 0, 0, m(13, 0) | m(29, 16) | m(62, 42), m(38, 32) | m(63, 48), 0, 0, 0]),
    f(0x2d, "MANAGE_STATS", [0, 0, 0, m(6, 0) | m(60, 60) | m(62, 62), 0, m(15, 0), 0, 0]),
    f(0x2e, "GATHER_STATS", [0, 0, 0, m(6, 0) | m(61, 60), ALL, m(15, 0), 0, 0]),
    f(0x2f, "UP_MAP", [ALL, 0, 0, m(62, 61), 0, m(15, 0) | m(37, 32), 0, 0]),
];

impl Format {
    /// The format of an opcode; `None` if the device has no such command, or the sources do not
    /// have its format.
    pub(crate) fn of(opcode: u8) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.opcode == opcode)
    }

    /// Byte offset of the first word with undefined bits set, and these bits.
    pub(crate) fn undefined(&self, command: &Command) -> Option<(usize, u64)> {
        let everywhere = [0, 0, 0, m(37, 32) | m(63, 63), 0, 0, 0, 0];
        command
            .0
            .iter()
            .zip(&self.words)
            .zip(everywhere)
            .map(|((word, own), common)| word & !(own | common))
            .enumerate()
            .find(|(_, extra)| *extra != 0)
            .map(|(n, extra)| (n * 8, extra))
    }
}
