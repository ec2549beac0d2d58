//! A minimal driver, generic over the platform as a real driver is.

use std::sync::atomic::AtomicU64;

use e810_hal::bus::CeqId;
use e810_hal::regs as hw;
use e810_hal::{DmaBuf, DmaLayout, DmaWord, DmaWords, Ns, Platform, Vector, WaitError, poll_until};

/// Entries of the CQP SQ: few, so that it wraps.
const SQ: u64 = 4;
/// Entries of the CCQ; it wraps too.
const CCQ: u64 = 6;
const COOKIE: u64 = 0xfeed_0123_4567_89ab;
pub(super) const CQS: u64 = 8;
/// HMC objects: byte offset in the commit buffer, count. Together they fit one SD.
const COUNTS: [(usize, u64); 17] = [
    (0, 4),
    (8, CQS),
    (24, 16),
    (32, 8),
    (48, 32),
    (56, 256),
    (64, 32),
    (72, 2048),
    (80, 256),
    (88, 16),
    (96, 4),
    (104, 8),
    (112, 1024),
    (128, 256),
    (136, 32),
    (144, 4),
    (152, 16),
];

pub(super) struct RawDriver<P: Platform> {
    pub(super) nic: P,
    pub(super) pf: u64,
    pub(super) sq: DmaBuf<P>,
    pub(super) context: DmaBuf<P>,
    pub(super) buffer: DmaBuf<P>,
    pub(super) backing: DmaBuf<P>,
    pub(super) ccq: DmaBuf<P>,
    pub(super) shadow: DmaBuf<P>,
    pub(super) ceq: DmaBuf<P>,
    pub(super) posted: u64,
    /// CCQ entries taken.
    pub(super) taken: u64,
    pub(super) vector: Vector,
}

/// Result of a command: OPRETVAL, major and minor code, ERROR.
pub(super) type Done = (u32, u16, u16, bool);

impl<P: Platform> RawDriver<P> {
    pub(super) fn new(nic: P, pf: u8) -> Self {
        let block = |bytes, align| DmaBuf::new(nic.clone(), DmaLayout::new(bytes, align)).unwrap();
        Self {
            pf: pf.into(),
            sq: block(SQ as usize * 64, 512),
            context: block(64, 8),
            buffer: block(512, 64),
            backing: block(2 << 20, 4096),
            ccq: block(CCQ as usize * 32, 256),
            shadow: block(64, 128),
            ceq: block(CQS as usize * 8, 256),
            posted: 0,
            taken: 0,
            vector: nic.vector_alloc().unwrap(),
            nic,
        }
    }

    pub(super) fn wait(&self, what: &'static str, ready: impl Fn() -> bool) {
        let answer: Result<(), WaitError> = poll_until(
            &self.nic,
            what,
            Ns::from_ms(10_000),
            Ns::from_us(10),
            || Ok(ready().then_some(())),
        );
        answer.unwrap();
    }

    pub(super) fn word(&self, memory: &DmaBuf<P>, index: u64) -> u64 {
        memory.words()[index as usize].observe()
    }

    /// Control-path 3.1, steps 5 to 9.
    pub(super) fn create_cqp(&mut self) {
        assert_eq!(hw::GLPE_CPUSTATUS0.get(&self.nic), 0x80);
        hw::PFPE_CQPTAIL.set(&self.nic, 0);
        hw::PFPE_CQPDB.set(&self.nic, 0);
        hw::PFPE_CCQPSTATUS.set(&self.nic, 0);
        // SQSIZE 1 (four entries), PROTOCOL_USED RoCE; HMC_PROFILE 1; HW_MAJVER 1.
        let words = [0x110, self.sq.iova().0, 1, COOKIE, 1 << 16, 0, 0, 0];
        for (cell, word) in self.context.words().iter().zip(words) {
            cell.set(word);
        }
        self.nic.to_device();
        let context = self.context.iova().0;
        hw::PFPE_CCQPHIGH.set(&self.nic, (context >> 32) as u32);
        hw::PFPE_CCQPLOW.set(&self.nic, context as u32);
        self.wait("CQP create", || hw::PFPE_CCQPSTATUS.get(&self.nic) != 0);
        assert_eq!(hw::PFPE_CCQPSTATUS.get(&self.nic) & 0x8000_0001, 1);
    }

    pub(super) fn destroy_cqp(&mut self) {
        hw::PFPE_CCQPHIGH.set(&self.nic, 0);
        hw::PFPE_CCQPLOW.set(&self.nic, 0);
        self.wait("CQP destroy", || {
            hw::PFPE_CCQPSTATUS.get(&self.nic) & 1 == 0
        });
    }

    /// Posts a command and rings the doorbell; `words[3]` is without opcode and VALID.
    pub(super) fn post(&mut self, opcode: u64, mut words: [u64; 8]) -> u64 {
        let (slot, lap) = (self.posted % SQ, self.posted / SQ);
        words[3] |= opcode << 32 | (1 - lap % 2) << 63;
        let wqe: &[AtomicU64; 8] = self.sq.block(slot as usize).unwrap();
        for index in [0, 1, 2, 4, 5, 6, 7] {
            wqe[index].set(words[index]);
        }
        self.nic.to_device();
        wqe[3].publish(words[3]);
        self.nic.to_device();
        self.posted += 1;
        hw::PFPE_CQPDB.set(&self.nic, (self.posted % SQ) as u32);
        slot
    }

    /// Runs a command and waits for its end in the registers (control-path 4.3).
    pub(super) fn by_registers(&mut self, opcode: u64, words: [u64; 8]) -> bool {
        self.post(opcode, words);
        let tail = || hw::PFPE_CQPTAIL.get(&self.nic);
        self.wait("a command", || {
            u64::from(tail() & 0x7ff) == self.posted % SQ
        });
        tail() >> 31 == 0
    }

    /// Waits for the next CCQ entry: WQE index and the result of the command.
    pub(super) fn take_ccq(&mut self) -> (u64, Done) {
        let (slot, lap) = (self.taken % CCQ, self.taken / CCQ);
        let at = slot * 4;
        let valid = 1 - lap % 2;
        self.wait("a CCQ entry", || {
            self.word(&self.ccq, at + 3) >> 63 == valid
        });
        self.nic.from_device();
        let header = self.word(&self.ccq, at + 3);
        assert_eq!(self.word(&self.ccq, at + 1), COOKIE);
        let done = (
            self.word(&self.ccq, at + 2) as u32,
            (header >> 16) as u16,
            header as u16,
            header >> 55 & 1 != 0,
        );
        self.taken += 1;
        self.shadow.words()[0].publish(self.taken % CCQ);
        (header >> 32 & 0x7fff, done)
    }

    /// Runs a command and waits for its end in the CCQ.
    pub(super) fn by_ccq(&mut self, opcode: u64, words: [u64; 8]) -> Done {
        let slot = self.post(opcode, words);
        let (index, done) = self.take_ccq();
        assert_eq!(index, slot);
        done
    }

    /// Features, FPM, one SD, SHMC (control-path 3.1, steps 10 to 13).
    pub(super) fn set_up_hmc(&mut self) {
        let buffer = self.buffer.iova().0;
        assert!(self.by_registers(0x12, [0, 0, 0, 272, buffer, 0, 0, 0]));
        assert!(
            self.word(&self.buffer, 0) >> 32 & 0xffff >= 2,
            "FEATURE_CNT"
        );
        assert!(self.by_registers(0x20, [0, 0, self.pf, 0, buffer, 0, 0, 0]));
        assert!(self.word(&self.buffer, 1) & 0xffff_ffff >= 4, "QP maximum");
        self.buffer.fill(0, 64, 0);
        for (offset, count) in COUNTS {
            self.buffer.words()[offset / 8].set(count);
        }
        assert!(self.by_registers(0x21, [0, 0, self.pf, 208, buffer, 0, 0, 0]));
        let backing = self.backing.iova().0;
        assert!(self.by_registers(0x1f, sd(backing | 3, self.pf)));
        assert!(self.by_registers(0x2b, [0, 0, self.pf, 0, 0, 0, 0, 0]));
    }

    /// CCQ, CEQ 0 and its vector, CCQ armed (control-path 3.1, steps 15 to 17).
    pub(super) fn set_up_events(&mut self) {
        // CEQIDVALID, CHKOVERFLOW, threshold.
        let flags = 1 << 49 | 1 << 46;
        let (ccq, shadow) = (self.ccq.iova().0, self.shadow.iova().0);
        let done = self.by_ccq(0x03, [CCQ, 0, 2, flags, ccq, shadow, 0, 0]);
        assert_eq!(done, (0, 0, 0, false));
        let ceq = self.ceq.iova().0;
        let done = self.by_ccq(0x16, [0, 0, CQS, 0, ceq, 0, 0, 0]);
        assert_eq!(done, (0, 0, 0, false));
        let ceq_0 = CeqId::new(0).unwrap();
        hw::GLINT_CEQCTL
            .at(ceq_0)
            .set(&self.nic, hw::CAUSE_ENABLED | self.vector.get());
        hw::GLINT_DYN_CTL
            .at(self.vector)
            .set(&self.nic, hw::DYN_CTL_ENABLE);
        self.arm(1);
    }

    pub(super) fn arm(&self, sequence: u64) {
        // ARM_NEXT, ARM_SEQ_NUM.
        self.shadow.words()[4].publish(1 << 14 | (sequence & 3) << 16);
        self.nic.to_device();
        hw::PFPE_CQARM.set(&self.nic, 0);
    }

    /// A command without lasting effect: adds a port to the port vector and removes it.
    pub(super) fn ports(&mut self, how_many: u64) {
        for port in 0..how_many {
            assert_eq!(
                self.by_ccq(0x23, [0, 0, 4791 + port, 1 << 62, 0, 0, 0, 0]),
                (0, 0, 0, false)
            );
            assert_eq!(
                self.by_ccq(0x23, [0, 0, 4791 + port, 0, 0, 0, 0, 0]),
                (0, 0, 0, false)
            );
        }
    }

    /// A leaf of the work scheduler with a queue set (control-path 4.13): root, VSI node, leaf,
    /// leaf enabled.
    pub(super) fn queue_set(&mut self) -> u64 {
        let (vsi, weighted) = (7 << 48 | 1 << 32, 1 << 59);
        let leaf = weighted | 1 << 61 | 1 << 16 | 2;
        self.by_ccq(0x2c, [0, 0, 0, 1 << 62 | weighted, vsi, 0, 0, 0]);
        self.by_ccq(0x2c, [0, 0, 0, 1 << 62 | weighted | 1, vsi, 0, 0, 0]);
        let (queue_set, ..) = self.by_ccq(0x2c, [0, 0, 0, leaf, vsi, 0, 0, 0]);
        self.by_ccq(0x2c, [0, 0, 0, leaf | 1 << 62 | 1 << 52, vsi, 0, 0, 0]);
        queue_set.into()
    }

    /// Undoes everything (control-path 3.4).
    pub(super) fn tear_down(mut self) {
        let ceq_0 = CeqId::new(0).unwrap();
        hw::GLINT_CEQCTL
            .at(ceq_0)
            .set(&self.nic, hw::CAUSE_DISABLED | self.vector.get());
        hw::GLINT_DYN_CTL
            .at(self.vector)
            .set(&self.nic, hw::DYN_CTL_DISABLE);
        self.nic.vector_free(self.vector);
        assert_eq!(
            self.by_ccq(0x18, [0, 0, CQS, 0, 0, 0, 0, 0]),
            (0, 0, 0, false)
        );
        let shadow = self.shadow.iova().0;
        assert!(self.by_registers(0x05, [CCQ, 0, 0, 1 << 49, 0, shadow, 0, 0]));
        assert!(self.by_registers(0x1f, sd(2, self.pf)));
        self.destroy_cqp();
        let Self {
            sq,
            context,
            buffer,
            backing,
            ccq,
            shadow,
            ceq,
            ..
        } = self;
        for memory in [sq, context, buffer, backing, ccq, shadow, ceq] {
            memory.release();
        }
    }
}

/// UPDATE_PE_SDS of SD 0: PMSDWR, PARTSEL; BPCOUNT 512.
fn sd(data: u64, pf: u64) -> [u64; 8] {
    [1 << 31 | 1 << 15, data | 512 << 2, pf, 0, 0, 0, 0, 0]
}

pub(super) fn ready<P: Platform>(nic: P, pf: u8) -> RawDriver<P> {
    let mut driver = RawDriver::new(nic, pf);
    driver.create_cqp();
    driver.set_up_hmc();
    driver.set_up_events();
    driver
}
