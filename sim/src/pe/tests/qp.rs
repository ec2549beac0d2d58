//! Queue pairs for tests: host context (control-path 5.2) and work requests (data-path 1, 2) as raw
//! words.

use super::test_driver::{GOOD, TestCq, TestDriver};
use crate::pe::Doorbell;

/// Quanta of both rings.
pub(super) const RING: u64 = 16;
/// Entries of both CQs.
pub(super) const CQ_ENTRIES: u64 = 32;
/// QPTYPE RoCE RC and RoCE UD.
const RC: u64 = 3 << 48;
const UD: u64 = 4 << 48;
const MACVALID: u64 = 1 << 51;
const CQNUMVALID: u64 = 1 << 47;
const ORDVALID: u64 = 1 << 42;
const ARPTABIDXVALID: u64 = 1 << 59;

/// MAC number of the port of a PF.
pub(super) fn mac(pf: u64) -> u64 {
    0x02e8_1000_0000 | pf
}

/// Address of a PF: 10.0.0.(1 + pf).
fn ip(pf: u64) -> u64 {
    0x0a00_0001 + pf
}

pub(super) struct TestQp {
    kind: u64,
    pub(super) id: u64,
    pub(super) pd: u64,
    peer: u64,
    pub(super) sq: u64,
    pub(super) rq: u64,
    pub(super) shadow: u64,
    pub(super) context: u64,
    pub(super) send: TestCq,
    pub(super) receive: TestCq,
    /// Quanta posted.
    pub(super) posted: u64,
    received: u64,
    pub(super) privileged: bool,
}

impl TestQp {
    /// An idle QP `id` in PD `pd` with CQs of its own (ids 2·id + 3 and 2·id + 4).
    pub(super) fn create(driver: &mut TestDriver, id: u64, pd: u64, peer: u64) -> Self {
        Self::create_kind(driver, RC, id, pd, peer)
    }

    /// The same for a datagram QP.
    pub(super) fn create_ud(driver: &mut TestDriver, id: u64, pd: u64, peer: u64) -> Self {
        Self::create_kind(driver, UD, id, pd, peer)
    }

    fn create_kind(driver: &mut TestDriver, kind: u64, id: u64, pd: u64, peer: u64) -> Self {
        let (send, receive) = (
            driver.create_cq(2 * id + 3, CQ_ENTRIES),
            driver.create_cq(2 * id + 4, CQ_ENTRIES),
        );
        let qp = Self {
            kind,
            id,
            pd,
            peer,
            sq: driver.env.alloc(RING * 32, 256),
            rq: driver.env.alloc(RING * 32, 256),
            shadow: driver.env.alloc(64, 64),
            context: driver.env.alloc(256, 256),
            send,
            receive,
            posted: 0,
            received: 0,
            privileged: false,
        };
        qp.create_in_device(driver);
        qp
    }

    /// CREATE_QP, with its memory and its CQs.
    pub(super) fn create_in_device(&self, driver: &mut TestDriver) {
        self.write_context(driver);
        let words = [
            0,
            0,
            self.context,
            self.kind | MACVALID | CQNUMVALID | 1 << 60 | self.id,
            0,
            self.shadow,
            0,
            0,
        ];
        assert_eq!(
            driver.command(0x00, words),
            GOOD,
            "{:?}",
            driver.env.findings
        );
    }

    /// The host context of a connection between QPs of the same number: PSNs 0x100 + pf.
    pub(super) fn write_context(&self, driver: &mut TestDriver) {
        let (own, peer) = (driver.pf, self.peer);
        let psn = |pf: u64| 0x100 + pf;
        // log2(16 / 4) = 2 for SQSIZE [15:12] and RQSIZE [11:8]; TTL 64; ports 0xC000 and 4791.
        let sizes = 2 << 12 | 2 << 8 | 64 | 0xC000 << 32 | 4791 << 48;
        let words = [
            (0, 1 << 3),
            (8, self.sq),
            (16, self.rq),
            (24, sizes),
            (32, ip(peer)),
            // SNDMSS 1024 [29:16], ARPIDX 3 [63:48].
            (48, 1024 << 16 | 3 << 48),
            // ACKCREDITS, P_Key, PD.
            (56, 0x1E << 20 | 0xFFFF << 32 | self.pd << 48),
            (64, self.id),
            (80, psn(own) | 0xFFFF << 32),
            (88, psn(peer)),
            (96, psn(own) | psn(own) << 32),
            (112, 0x400 << 32),
            // REXMIT 2, RNR 2, RTOMIN 5.
            (128, 2 << 48 | 2 << 54 | 5 << 57),
            (136, self.send.id | self.receive.id << 32),
            (152, mac(own) << 16),
            // ORD 4, IRD code 0, WRRDRSPOK, RDOK, FASTREGEN, PRIVEN.
            (160, 4 | 3 << 20 | if self.privileged { 3 << 24 } else { 0 }),
            (168, 0xc0de_0000 | self.id),
            (176, driver.queue_set << 16),
            (184, ip(own)),
            (208, 3),
        ];
        for (offset, word) in words {
            driver.env.set_word(self.context + offset, word);
        }
    }

    pub(super) fn modify(
        &self,
        driver: &mut TestDriver,
        state: u64,
        flags: u64,
    ) -> super::test_driver::Done {
        let words = [
            0,
            0,
            self.context,
            self.kind | flags | state << 60 | self.id,
            0,
            self.shadow,
            0,
            0,
        ];
        driver.command(0x01, words)
    }

    /// IDLE → RTR → RTS as Linux does it (control-path 5.5), with the ARP entry of the peer.
    pub(super) fn connect(&self, driver: &mut TestDriver) {
        self.to_rtr(driver);
        assert_eq!(
            self.modify(driver, 2, CQNUMVALID | ARPTABIDXVALID | ORDVALID),
            GOOD
        );
    }

    /// The first half of [`TestQp::connect`].
    pub(super) fn to_rtr(&self, driver: &mut TestDriver) {
        self.add_neighbour(driver);
        assert_eq!(self.modify(driver, 4, CQNUMVALID | ARPTABIDXVALID), GOOD);
    }

    /// The ARP entry of its peer.
    pub(super) fn add_neighbour(&self, driver: &mut TestDriver) {
        driver.good(0x0f, [0, 0, mac(self.peer), 3 << 42 | 3, 0, 0, 0, 0]);
    }

    pub(super) fn to_error(&self, driver: &mut TestDriver) {
        let done = self.modify(driver, 6, 0);
        // An idle QP may refuse: ERROR was requested.
        let refused = (done.major, done.minor) == (0xFFFF, 0x8002);
        assert!(done == GOOD || refused, "{done:?}");
    }

    pub(super) fn destroy(&self, driver: &mut TestDriver) -> super::test_driver::Done {
        driver.command(
            0x02,
            [
                0,
                0,
                self.context,
                self.kind | 1 << 55 | self.id,
                0,
                self.shadow,
                0,
                0,
            ],
        )
    }

    /// Polarity of the lap that quantum `n` is in.
    fn valid(n: u64) -> u64 {
        (1 - n / RING % 2) << 63
    }

    /// Writes a one-quantum work request; `words[3]` is without VALID, `words[1]` without the
    /// fragment's valid bit.
    pub(super) fn put(&mut self, driver: &mut TestDriver, words: [u64; 4], fragment: bool) -> u64 {
        let index = self.posted % RING;
        let valid = Self::valid(self.posted);
        let [q0, q1, q2, q3] = words;
        let q1 = if fragment { q1 | valid } else { q1 };
        driver
            .env
            .set_words(self.sq + index * 32, &[q0, q1, q2, q3 | valid]);
        self.posted += 1;
        index
    }

    pub(super) fn doorbell(&self, driver: &mut TestDriver) {
        driver.ring(Doorbell::WqeAlloc, self.id as u32);
    }

    /// A signaled send (opcode 3), write (0) or read (1) of one fragment.
    pub(super) fn post(
        &mut self,
        driver: &mut TestDriver,
        op: u64,
        local: (u64, u64, u32),
        remote: (u64, u32),
    ) -> u64 {
        let (address, bytes, stag) = local;
        let header = 1 << 62 | op << 32 | u64::from(remote.1);
        self.put(
            driver,
            [address, bytes << 32 | u64::from(stag), remote.0, header],
            true,
        )
    }

    /// A receive of one fragment.
    pub(super) fn post_receive(
        &mut self,
        driver: &mut TestDriver,
        address: u64,
        bytes: u64,
        stag: u32,
    ) {
        let valid = Self::valid(self.received);
        let at = self.rq + self.received % RING * 32;
        driver.env.set_words(
            at,
            &[address, bytes << 32 | u64::from(stag) | valid, 0, valid],
        );
        self.received += 1;
    }

    /// FLUSH_WQES of both queues: minor 5 for the SQ, 1 for the RQ.
    pub(super) fn flush(&self, driver: &mut TestDriver, sides: u64) -> super::test_driver::Done {
        let codes = 1 | 1 << 16 | 5 << 32 | 1 << 48;
        driver.command(0x22, [0, 0, codes, sides | 1 << 60 | self.id, 0, 0, 0, 0])
    }
}

/// Flags of FLUSH_WQES.
pub(super) const FLUSH_SQ: u64 = 1 << 61;
pub(super) const FLUSH_RQ: u64 = 1 << 62;
