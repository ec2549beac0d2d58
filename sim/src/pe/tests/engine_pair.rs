//! Two engines connected back to back.

use super::qp::TestQp;
use super::test_driver::TestDriver;
use crate::pe::Config;

pub(super) const PD: u64 = 7;
pub(super) const VA: u64 = 0x4000_0123;
/// Bytes of a region: several packets of 1024.
pub(super) const BYTES: u64 = if cfg!(miri) { 2500 } else { 6000 };
pub(super) const HALF: u64 = BYTES / 2;
/// Local and remote read and write.
pub(super) const ALL_RIGHTS: u64 = 0xF;

/// Two functions, each with a connected QP 3 and a region.
pub(super) struct EnginePair {
    pub(super) rigs: [TestDriver; 2],
    pub(super) qps: [TestQp; 2],
    pub(super) regions: [(u32, u64); 2],
}

impl EnginePair {
    pub(super) fn new(config: Config) -> Self {
        let mut rigs = [0, 1].map(|pf| {
            TestDriver::ready(Config {
                pf,
                ..config.clone()
            })
        });
        let [a, b] = &mut rigs;
        let regions = [
            a.register(9, PD, VA, BYTES, ALL_RIGHTS),
            b.register(11, PD, VA, BYTES, ALL_RIGHTS),
        ];
        let qps = [TestQp::create(a, 3, PD, 1), TestQp::create(b, 3, PD, 0)];
        qps[0].connect(a);
        qps[1].connect(b);
        let pair = Self { rigs, qps, regions };
        pair.no_findings();
        pair
    }

    /// Runs both and carries frames until nothing happens any more.
    pub(super) fn settle(&mut self) {
        loop {
            let [a, b] = &mut self.rigs;
            a.settle();
            b.settle();
            if a.env.frames.is_empty() && b.env.frames.is_empty() {
                return;
            }
            for frame in std::mem::take(&mut a.env.frames) {
                b.engine.receive(&frame, &mut b.env);
            }
            for frame in std::mem::take(&mut b.env.frames) {
                a.engine.receive(&frame, &mut a.env);
            }
        }
    }

    pub(super) fn no_findings(&self) {
        for driver in &self.rigs {
            assert_eq!(driver.env.findings, []);
        }
    }

    pub(super) fn fill(&mut self, side: usize, seed: u8) -> Vec<u8> {
        let data: Vec<u8> = (0..BYTES)
            .map(|n| (n as u8).wrapping_mul(31).wrapping_add(seed))
            .collect();
        self.rigs[side].env.poke(self.regions[side].1, &data);
        data
    }

    pub(super) fn memory(&self, side: usize, bytes: u64) -> Vec<u8> {
        let mut data = vec![0; bytes as usize];
        self.rigs[side].env.peek(self.regions[side].1, &mut data);
        data
    }

    /// Posts on side 0 and rings the doorbell.
    pub(super) fn post(&mut self, op: u64, bytes: u64) -> u64 {
        let (local, remote) = (self.regions[0].0, self.regions[1].0);
        let remote = if op == 3 { (0, 0) } else { (VA, remote) };
        let index = self.qps[0].post(&mut self.rigs[0], op, (VA, bytes, local), remote);
        self.qps[0].doorbell(&mut self.rigs[0]);
        index
    }

    pub(super) fn send_cqe(&mut self) -> Option<[u64; 4]> {
        self.qps[0]
            .send
            .poll(&mut self.rigs[0].env)
            .map(|(cqe, _)| cqe)
    }

    pub(super) fn receive_cqe(&mut self) -> Option<[u64; 4]> {
        self.qps[1]
            .receive
            .poll(&mut self.rigs[1].env)
            .map(|(cqe, _)| cqe)
    }
}

/// WQEIDX, OP, ERROR, MAJERR, MINERR of a CQE.
pub(super) fn header(cqe: [u64; 4]) -> (u64, u64, bool, u64, u64) {
    let word = cqe[3];
    (
        word >> 32 & 0x7FFF,
        word >> 56 & 0x3F,
        word >> 55 & 1 != 0,
        word >> 16 & 0xFFFF,
        word & 0xFFFF,
    )
}
