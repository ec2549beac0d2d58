//! Traffic between two functions over a reliable connection built from raw words.

use crate::builder::{FIRST_MAC, mac};
use std::sync::atomic::AtomicU64;

use e810_hal::{Barrier, DmaBuf, DmaLayout, DmaWord, DmaWords, SharedBytes};

use super::raw_driver::Done;
use super::*;
use crate::Quality;

/// Quanta of both rings, entries of the CQ.
const RING: u64 = 64;
const PD: u64 = 5;
const QP: u64 = 3;
const CQ: u64 = 4;
const BYTES: usize = 5_000;
/// Address that the regions are registered at.
const VA: u64 = 0x7000_0000;
/// Index 6, key 0x21.
const STAG: u64 = 6 << 8 | 0x21;

/// QPTYPE RoCE RC, and the flags of control-path 4.7.
const RC: u64 = 3 << 48;
const MACVALID: u64 = 1 << 51;
const CQNUMVALID: u64 = 1 << 47;
const ORDVALID: u64 = 1 << 42;
const ARPTABIDXVALID: u64 = 1 << 59;

const GOOD: Done = (0, 0, 0, false);

/// A connected queue pair and a region of one function.
struct Rc {
    driver: RawDriver<SimPlatform>,
    sq: DmaBuf<SimPlatform>,
    rq: DmaBuf<SimPlatform>,
    cq: DmaBuf<SimPlatform>,
    shadow: DmaBuf<SimPlatform>,
    cq_shadow: DmaBuf<SimPlatform>,
    context: DmaBuf<SimPlatform>,
    payload: DmaBuf<SimPlatform>,
}

fn mac_number(pf: u64) -> u64 {
    let mac = mac(FIRST_MAC, pf as u8);
    mac.iter()
        .fold(0, |number, octet| number << 8 | u64::from(*octet))
}

impl Rc {
    fn new(nic: &SimPlatform) -> Self {
        let pf = nic.pf();
        let block = |bytes, align| DmaBuf::new(nic.clone(), DmaLayout::new(bytes, align)).unwrap();
        let mut rc = Self {
            driver: ready(nic.clone(), pf),
            sq: block(RING as usize * 32, 256),
            rq: block(RING as usize * 32, 256),
            cq: block(RING as usize * 32, 256),
            shadow: block(64, 64),
            cq_shadow: block(64, 64),
            context: block(256, 256),
            payload: block(8192, 4096),
        };
        let queue_set = rc.driver.queue_set();
        rc.write_context(queue_set);
        rc.create();
        rc.connect();
        rc
    }

    fn good(&mut self, opcode: u64, words: [u64; 8]) {
        let done = self.driver.by_ccq(opcode, words);
        assert_eq!(done, GOOD, "opcode {opcode:#x}");
    }

    /// Region over the payload, CQ, QP (control-path 4.10, 4.8, 4.7).
    fn create(&mut self) {
        // MR, all rights, REMACCENABLED, VABASEDTO.
        let rights = 1 << 43 | 0xf << 48 | 1 << 53 | 1 << 59;
        let payload = self.payload.iova().0;
        self.good(
            0x0a,
            [VA, BYTES as u64 | PD << 46, STAG, rights, payload, 0, 0, 0],
        );
        let flags = 1 << 49 | 1 << 48 | 1 << 46;
        let (cq, cq_shadow) = (self.cq.iova().0, self.cq_shadow.iova().0);
        self.good(0x03, [RING, CQ, RING / 2, flags | CQ, cq, cq_shadow, 0, 0]);
        let (context, shadow) = (self.context.iova().0, self.shadow.iova().0);
        let header = RC | MACVALID | CQNUMVALID | 1 << 60 | QP;
        self.good(0x00, [0, 0, context, header, 0, shadow, 0, 0]);
    }

    /// IDLE to RTR to RTS (control-path 5.5).
    fn connect(&mut self) {
        let peer = mac_number(1 - self.driver.pf);
        self.good(0x0f, [0, 0, peer, 3 << 42 | 3, 0, 0, 0, 0]);
        let (context, shadow) = (self.context.iova().0, self.shadow.iova().0);
        for (state, flags) in [(4, 0), (2, ORDVALID)] {
            let header = RC | CQNUMVALID | ARPTABIDXVALID | flags | state << 60 | QP;
            self.good(0x01, [0, 0, context, header, 0, shadow, 0, 0]);
        }
    }

    /// Host context (control-path 5.2).
    fn write_context(&self, queue_set: u64) {
        let (own, peer) = (self.driver.pf, 1 - self.driver.pf);
        let psn = |pf: u64| 0x70_0000 + pf;
        let ip = |pf: u64| 0x0a00_0001 + pf;
        let words = [
            (0, 1 << 3),
            (8, self.sq.iova().0),
            (16, self.rq.iova().0),
            // Ring sizes, TTL, ports.
            (24, 4 << 12 | 4 << 8 | 64 | 0xC000 << 32 | 4791 << 48),
            (32, ip(peer)),
            // SNDMSS 1024, ARPIDX 3.
            (48, 1024 << 16 | 3 << 48),
            (56, 0x1E << 20 | 0xFFFF << 32 | PD << 48),
            (64, QP),
            (80, psn(own) | 0xFFFF << 32),
            (88, psn(peer)),
            (96, psn(own) | psn(own) << 32),
            (112, 0x400 << 32),
            // REXMIT 7, RNR 7, RTOMIN 5.
            (128, 7 << 48 | 7 << 54 | 5 << 57),
            (136, CQ | CQ << 32),
            (152, mac_number(own) << 16),
            (160, 4 | 3 << 20),
            (168, 0xc0de),
            (176, queue_set << 16),
            (184, ip(own)),
            (208, 3),
        ];
        for (offset, word) in words {
            self.context.words()[offset / 8].set(word);
        }
    }

    fn bytes(&self) -> SharedBytes {
        let start = std::ptr::NonNull::from(self.payload.words()).cast();
        // SAFETY: the buffer outlives the use in each test; its words are only accessed atomically.
        unsafe { SharedBytes::new(start, BYTES) }
    }

    /// A signaled RDMA WRITE of the whole region to the peer's (data-path 1), as request `nth`.
    fn write(&self, nth: u64) {
        let valid = (1 - nth / RING % 2) << 63;
        let wqe: &[AtomicU64; 4] = self.sq.block((nth % RING) as usize).unwrap();
        wqe[0].set(VA);
        wqe[1].set(valid | (BYTES as u64) << 32 | STAG);
        wqe[2].set(VA);
        self.driver.nic.to_device();
        wqe[3].publish(valid | 1 << 62 | STAG);
        self.driver.nic.to_device();
        hw::DB_WQE_ALLOC.set(&self.driver.nic, QP as u32);
        // Its completion: entry `nth`, of this request and without an error.
        let at = nth % RING * 4;
        self.driver.wait("a completion", || {
            self.driver.word(&self.cq, at + 3) & 1 << 63 == valid
        });
        self.driver.nic.from_device();
        let header = self.driver.word(&self.cq, at + 3);
        assert_eq!(header >> 55 & 1, 0, "ERROR");
        assert_eq!(header >> 32 & 0x7fff, nth % RING, "WQE index");
        self.cq_shadow.words()[0].publish((nth + 1) % RING);
    }
}

fn writes(mode: Mode, seed: u64, quality: Quality) -> (Sim, u64) {
    let sim = Sim::builder().functions(2).seed(seed).mode(mode).build();
    let (near, far) = (Rc::new(&sim.function(0)), Rc::new(&sim.function(1)));
    sim.set_quality(quality);
    let rounds = if cfg!(miri) { 1 } else { 4 };
    for nth in 0..rounds {
        let pattern: Vec<u8> = (0..BYTES)
            .map(|n| (n as u64 * 7 + nth + seed) as u8)
            .collect();
        near.bytes().write(0, &pattern).unwrap();
        near.write(nth);
        let mut arrived = vec![0; BYTES];
        far.bytes().read(0, &mut arrived).unwrap();
        assert!(arrived == pattern, "the bytes of write {nth}, seed {seed}");
    }
    assert_eq!(sim.findings(), [], "seed {seed}");
    (sim, rounds)
}

#[test]
fn a_write_arrives_at_the_other_function() {
    // Under Miri the device is so slow that a sender in real time would take every packet for lost.
    let modes = [Mode::Virtual, Mode::Real]
        .into_iter()
        .take(if cfg!(miri) { 1 } else { 2 });
    for mode in modes {
        let (sim, rounds) = writes(mode, 1, Quality::PERFECT);
        let link = sim.link();
        // 5000 bytes in packets of 1024, and at least one ACK.
        assert_eq!(sim.stats(0).frames_sent, 5 * rounds);
        assert!(sim.stats(1).frames_sent >= rounds);
        assert_eq!(link.sent, link.delivered);
        assert_eq!(link.unroutable, 0);
    }
}

#[test]
#[cfg_attr(miri, ignore = "two bring-ups and many packets")]
fn a_write_arrives_over_a_bad_wire() {
    let bad = Quality {
        loss: 50_000,
        duplicate: 50_000,
        reorder: 50_000,
        corrupt: 30_000,
        ..Quality::PERFECT
    };
    let mut hurt = 0;
    for seed in 0..12 {
        let (sim, _) = writes(Mode::Virtual, seed, bad);
        let link = sim.link();
        hurt += link.lost + link.reordered + link.corrupted + link.duplicated;
    }
    assert!(hurt > 20, "the wire was bad: {hurt}");
}
