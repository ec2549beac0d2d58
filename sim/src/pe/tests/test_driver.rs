//! A minimal driver for tests: every word is built from the tables of `control-path` and
//! `data-path`.

use super::env::TestEnv;
use crate::pe::{Config, Doorbell, PeReg, ProtocolEngine};

/// Entries of the CQP SQ: small, so that it wraps.
const SQ: u64 = 8;
pub(super) const CCQ: u64 = 64;
pub(super) const QPS: u64 = 8;
pub(super) const CQS: u64 = 16;
pub(super) const MRS: u64 = 32;
pub(super) const PBLES: u64 = 2048;
/// Counts of the commit buffer: (byte offset, count).
const COUNTS: [(u64, u64); 17] = [
    (0, QPS),
    (8, CQS),
    (24, 16),
    (32, 8),
    (48, MRS),
    (56, 256),
    (64, 32),
    (72, 1024),
    (80, 128),
    (88, 16),
    (96, 4),
    (104, 8),
    (112, PBLES),
    (128, 256),
    (136, 32),
    (144, QPS),
    (152, 16),
];

/// Result of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Done {
    pub(super) value: u32,
    pub(super) major: u16,
    pub(super) minor: u16,
    pub(super) error: bool,
}

pub(super) const GOOD: Done = Done {
    value: 0,
    major: 0,
    minor: 0,
    error: false,
};

pub(super) struct TestDriver {
    pub(super) engine: ProtocolEngine,
    pub(super) env: TestEnv,
    pub(super) pf: u64,
    sq: u64,
    posted: u64,
    /// CCQ memory, shadow area, entries consumed.
    pub(super) ccq: Option<(u64, u64, u64)>,
    /// Bases from the commit reply, by byte offset of the count.
    pub(super) commit: u64,
    pub(super) backing: Vec<u64>,
    pub(super) ceq: u64,
    pub(super) aeq: u64,
    pub(super) queue_set: u64,
}

impl TestDriver {
    pub(super) fn new(config: Config) -> Self {
        let pf = u64::from(config.pf);
        let mut env = TestEnv::new(0x1234_5678 + pf);
        let sq = env.alloc(SQ * 64, 512);
        Self {
            engine: ProtocolEngine::new(config),
            env,
            pf,
            sq,
            posted: 0,
            ccq: None,
            commit: 0,
            backing: Vec::new(),
            ceq: 0,
            aeq: 0,
            queue_set: 0,
        }
    }

    /// Everything up to the AEQ and the work scheduler.
    pub(super) fn ready(config: Config) -> Self {
        let mut driver = Self::new(config);
        driver.create_cqp();
        driver.hmc();
        driver.events(256);
        driver.nodes();
        driver
    }

    /// Runs the engine until it has had nothing to do for 10 ms.
    pub(super) fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.engine.step(&mut self.env) {
                continue;
            }
            match self.engine.next_deadline() {
                Some(at) if at <= self.env.now + 10_000_000 => self.env.now = at.max(self.env.now),
                _ => return,
            }
        }
        panic!("the engine does not come to rest");
    }

    pub(super) fn ring(&mut self, doorbell: Doorbell, value: u32) {
        self.engine.doorbell(doorbell, value, &mut self.env);
        self.settle();
    }

    pub(super) fn create_cqp(&mut self) {
        // The context only needs an alignment of 4 (control-path 4.2).
        let context = self.env.alloc(128, 64) + 0x18 + 4;
        // q0: SQSIZE [11:8] = 2 (8 entries), PROTOCOL_USED [4:3] = 2; q16 HMC_PROFILE 1; q32
        // HW_MAJVER 1.
        let words = [0x210, self.sq, 1, 0xfeed_0000_0000_0001, 1 << 16, 0, 0, 0];
        self.env.set_words(context, &words);
        self.posted = 0;
        self.ring(Doorbell::CqpTail, 0);
        self.ring(Doorbell::CqpDb, 0);
        self.ring(Doorbell::CcqpHigh, (context >> 32) as u32);
        self.ring(Doorbell::CcqpLow, context as u32);
        assert_eq!(self.env.reg(PeReg::CcqpStatus), 1 | 1 << 4);
        assert_eq!(self.env.reg(PeReg::CqpTail), 0);
    }

    /// Puts a WQE into the ring without ringing; `words[3]` is without opcode and VALID.
    pub(super) fn post(&mut self, opcode: u64, mut words: [u64; 8]) -> u64 {
        let (slot, lap) = (self.posted % SQ, self.posted / SQ);
        words[3] |= opcode << 32 | (1 - lap % 2) << 63;
        self.env.set_words(self.sq + slot * 64, &words);
        self.posted += 1;
        slot
    }

    pub(super) fn ring_cqp(&mut self) {
        self.ring(Doorbell::CqpDb, (self.posted % SQ) as u32);
    }

    /// Runs a command and takes its completion from the CCQ if there is one, otherwise from the
    /// registers.
    pub(super) fn command(&mut self, opcode: u64, words: [u64; 8]) -> Done {
        let slot = self.post(opcode, words);
        self.ring_cqp();
        let tail = self.env.reg(PeReg::CqpTail);
        assert_eq!(u64::from(tail & 0x7FF), self.posted % SQ, "CQPTAIL");
        match self.take_ccq() {
            Some((index, op, done)) => {
                assert_eq!((index, op), (slot, opcode), "CQE of the command");
                assert_eq!(done.error, tail >> 31 != 0, "CQP_OP_ERR");
                done
            }
            None => {
                let codes = self.env.reg(PeReg::CqpErrCodes);
                let error = tail >> 31 != 0;
                let codes = if error { codes } else { 0 };
                Done {
                    value: 0,
                    major: (codes >> 16) as u16,
                    minor: codes as u16,
                    error,
                }
            }
        }
    }

    /// A command that must succeed; returns OPRETVAL.
    pub(super) fn good(&mut self, opcode: u64, words: [u64; 8]) -> u64 {
        let done = self.command(opcode, words);
        assert!(
            !done.error,
            "opcode {opcode:#x}: {done:x?} {:?}",
            self.env.findings
        );
        done.value.into()
    }

    /// The next CQE of the CCQ: WQE index, opcode, result.
    pub(super) fn take_ccq(&mut self) -> Option<(u64, u64, Done)> {
        let (memory, shadow, taken) = self.ccq?;
        let at = memory + taken % CCQ * 32;
        let header = self.env.word(at + 24);
        if header >> 63 != 1 - taken / CCQ % 2 {
            return None;
        }
        assert_eq!(self.env.word(at + 8), 0xfeed_0000_0000_0001, "the cookie");
        let done = Done {
            value: self.env.word(at + 16) as u32,
            major: (header >> 16) as u16,
            minor: header as u16,
            error: header >> 55 & 1 != 0,
        };
        self.ccq = Some((memory, shadow, taken + 1));
        self.env.set_word(shadow, (taken + 1) % CCQ);
        Some((header >> 32 & 0x7FFF, header >> 56 & 0x3F, done))
    }

    /// Query, commit, SDs, SHMC.
    pub(super) fn hmc(&mut self) {
        self.commit();
        // One SD covers these counts.
        self.direct_sd(0);
        self.good(0x2b, [0, 0, self.pf, 0, 0, 0, 0, 0]);
    }

    pub(super) fn commit(&mut self) {
        let buffer = self.env.alloc(512, 4);
        self.good(0x20, [0, 0, self.pf, 0, buffer, 0, 0, 0]);
        self.commit = self.env.alloc(212, 64) + 4;
        for (offset, count) in COUNTS {
            self.env.set_word(self.commit + offset, count);
        }
        self.good(0x21, [0, 0, self.pf, 208, self.commit, 0, 0, 0]);
    }

    /// FPM address of the objects whose count is at `offset` of the commit buffer.
    pub(super) fn base(&self, offset: u64) -> u64 {
        (self.env.word(self.commit + offset) >> 32) * 512
    }

    /// Maps SD `sd` to new direct backing.
    pub(super) fn direct_sd(&mut self, sd: u64) {
        let backing = self.env.alloc(0x20_0000, 4096);
        self.backing.push(backing);
        // cmd: PMSDWR [31], PARTSEL [15], index; data: BPCOUNT 512 [11:2], TYPE direct [1], VALID
        // [0].
        self.good(
            0x1f,
            [
                sd | 1 << 15 | 1 << 31,
                backing | 512 << 2 | 3,
                self.pf,
                0,
                0,
                0,
                0,
                0,
            ],
        );
    }

    /// CCQ, CEQ 0, AEQ.
    pub(super) fn events(&mut self, aeqes: u64) {
        let (memory, shadow) = (self.env.alloc(CCQ * 32, 256), self.env.alloc(64, 128));
        self.ccq = Some((memory, shadow, 0));
        // CEQIDVALID [49], CHKOVERFLOW [46], threshold 16.
        self.good(0x03, [CCQ, 0, 16, 1 << 49 | 1 << 46, memory, shadow, 0, 0]);
        self.ceq = self.env.alloc(256 * 8, 256);
        self.good(0x16, [0, 0, 256, 0, self.ceq, 0, 0, 0]);
        self.aeq = self.env.alloc(aeqes * 16, 256);
        self.good(0x19, [0, 0, aeqes, 0, self.aeq, 0, 0, 0]);
    }

    /// Root, VSI node and an enabled leaf.
    pub(super) fn nodes(&mut self) {
        let wrr = 1 << 59;
        let vsi = 7 << 48 | 1 << 32;
        self.good(0x2c, [0, 0, 0, 1 << 62 | wrr, vsi, 0, 0, 0]);
        self.good(0x2c, [0, 0, 0, 1 << 62 | wrr | 1, vsi, 0, 0, 0]);
        let leaf = wrr | 1 << 61 | 1 << 16 | 2;
        self.queue_set = self.good(0x2c, [0, 0, 0, leaf, vsi, 0, 0, 0]);
        self.good(0x2c, [0, 0, 0, leaf | 1 << 62 | 1 << 52, vsi, 0, 0, 0]);
    }

    /// A normal CQ on CEQ 0: ring and shadow area.
    pub(super) fn create_cq(&mut self, id: u64, entries: u64) -> TestCq {
        let (memory, shadow) = (self.env.alloc(entries * 32, 256), self.env.alloc(64, 64));
        let flags = 1 << 49 | 1 << 48 | 1 << 46;
        let words = [
            entries,
            id,
            entries / 2,
            flags | id,
            memory,
            shadow,
            0,
            7 << 8,
        ];
        assert_eq!(self.command(0x03, words), GOOD);
        TestCq {
            id,
            memory,
            shadow,
            entries,
            taken: 0,
        }
    }

    /// A VA-based region over its own memory: STag and IOVA. Driver bits on top of the index are
    /// random in Linux.
    pub(super) fn register(
        &mut self,
        index: u64,
        pd: u64,
        va: u64,
        bytes: u64,
        rights: u64,
    ) -> (u32, u64) {
        let memory = self
            .env
            .alloc((va % 4096 + bytes).next_multiple_of(4096), 4096);
        let driver_bits = 0x2a5 << 14;
        let idx = index | driver_bits;
        let remote = u64::from(rights & 0xC != 0);
        // MR [43], ARIGHTS [52:48], REMACCENABLED [53], VABASEDTO [59]; KEY 0x5a.
        let header = 1 << 43 | rights << 48 | remote << 53 | 1 << 59;
        let words = [
            va,
            bytes | pd << 46,
            idx << 8 | 0x5a,
            header,
            memory,
            0,
            0,
            0,
        ];
        assert_eq!(self.command(0x0a, words), GOOD);
        ((idx << 8 | 0x5a) as u32, memory + va % 4096)
    }

    /// The AEQE at `n`: (code, id, source, state, WQE index, overflow), if it is valid in the first
    /// lap.
    pub(super) fn aeqe(&self, n: u64) -> Option<(u64, u64, u64, u64, u64, bool)> {
        let word = self.env.word(self.aeq + 16 * n + 8);
        let id = word & 0x3FFFF | (word >> 46 & 1) << 18;
        (word >> 63 == 1).then_some((
            word >> 34 & 0xFFF,
            id,
            word >> 50 & 0xF,
            word >> 54 & 7,
            word >> 18 & 0x7FFF,
            word >> 33 & 1 != 0,
        ))
    }
}

/// A CQ as its consumer sees it.
pub(super) struct TestCq {
    pub(super) id: u64,
    pub(super) memory: u64,
    pub(super) shadow: u64,
    pub(super) entries: u64,
    taken: u64,
}

impl TestCq {
    /// The next entry, and its extension if there is one.
    pub(super) fn poll(&mut self, env: &mut TestEnv) -> Option<([u64; 4], Option<[u64; 4]>)> {
        let main = self.entry(env, self.taken)?;
        let extension = if main[3] >> 50 & 1 != 0 {
            Some(self.entry(env, self.taken + 1)?)
        } else {
            None
        };
        self.taken += 1 + u64::from(extension.is_some());
        env.set_word(self.shadow, self.taken % self.entries);
        Some((main, extension))
    }

    fn entry(&self, env: &TestEnv, n: u64) -> Option<[u64; 4]> {
        let at = self.memory + n % self.entries * 32;
        let words: [u64; 4] = std::array::from_fn(|i| env.word(at + 8 * i as u64));
        (words[3] >> 63 == 1 - n / self.entries % 2).then_some(words)
    }
}
