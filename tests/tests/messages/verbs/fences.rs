//! Fences that the driver adds to requests, as they stand in a queue pair's ring.

use e810::{Op, SendFlags, SendWr, Tuning};
use e810_sim::SimPlatform;
use e810_tests::traffic::{Pair, Side, Watched};

use crate::verbs::tuning::pair;
use crate::verbs::{A, sim};

const RDMA_READ: u64 = 0x01;
const LOCAL_INV: u64 = 0x0A;
const READ_FENCE: u64 = 1 << 60;
const LOCAL_FENCE: u64 = 1 << 61;

/// Headers of requests of the first lap with this opcode, in all memory that the
/// device may read, where `is` says so of q1 and q2.
fn headers(
    side: &Side<Watched<SimPlatform>>,
    opcode: u64,
    is: impl Fn(u64, u64) -> bool,
) -> Vec<u64> {
    let mut found = Vec::new();
    for block in side.platform.blocks() {
        for quantum in 0..block.words() / 4 {
            let [q1, q2, q3] = [1, 2, 3].map(|word| block.get(quantum * 4 + word));
            if q3 >> 32 & 0x3F == opcode && q3 >> 63 == 1 && is(q1, q2) {
                found.push(q3);
            }
        }
    }
    found
}

fn post(pair: &mut Pair<Watched<SimPlatform>>, ops: &[Op<'_>]) {
    let wr = |&op| SendWr {
        wr_id: 7,
        op,
        flags: SendFlags::SIGNALED,
    };
    let list: Vec<_> = ops.iter().map(wr).collect();
    pair.side(0).post_send(0, &list).unwrap();
    let done = pair.completions(0, ops.len());
    assert!(done.iter().all(|wc| wc.wr_id == 7), "{done:?}");
}

/// As kernel drivers do, whatever the request says (data-path 1.7).
#[test]
fn an_invalidation_of_the_driver_has_a_local_fence() {
    let sim = sim(61);
    let mut pair = pair(&sim, |_| {});
    // It ends in an error, because the key is nobody's; the request is what counts
    // here.
    let stag = 0x12_3456;
    post(&mut pair, &[Op::LocalInv { stag }]);
    let found = headers(pair.side(0), LOCAL_INV, |q1, _| q1 == u64::from(stag));
    let fences: Vec<_> = found.iter().map(|q3| q3 & LOCAL_FENCE).collect();
    assert_eq!(fences, [LOCAL_FENCE]);
    pair.renew(A);
    for side in &mut pair.sides {
        side.take();
    }
    pair.finish(&sim);
}

/// A rate in the settings of a device reaches its queues.
#[test]
fn reads_are_fenced_as_the_settings_say() {
    for (seed, tuning, fenced) in [
        (62, Tuning::LINUX, vec![]),
        (63, Tuning::WITHOUT_FLOW_CONTROL, vec![4, 9]),
    ] {
        let sim = sim(seed);
        let mut pair = pair(&sim, |config| config.tuning = tuning);
        let remote = pair.remote(A, 0);
        let into = [pair.side(0).sge(0, 40)];
        let read = Op::Read {
            into: &into,
            remote,
        };
        post(&mut pair, &[read; 12]);
        let found = headers(pair.side(0), RDMA_READ, |_, q2| q2 == remote.addr);
        assert_eq!(found.len(), 12);
        let at: Vec<_> = (0..12).filter(|&at| found[at] & READ_FENCE != 0).collect();
        assert_eq!(at, fenced, "{tuning:?}");
        pair.finish(&sim);
    }
}
