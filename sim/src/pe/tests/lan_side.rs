//! What the engine does without its LAN side: a VSI that the switch does not have, a queue set that its scheduler does not
//! know.

use super::engine_pair::{BYTES, Pair, VA};
use super::qp::TestQp;
use super::test_driver::{GOOD, Rig};
use crate::pe::Config;

#[test]
fn a_node_needs_a_vsi() {
    let mut rig = Rig::ready(Config::default());
    rig.env.no_vsi = true;
    let leaf = [0, 0, 0, 1 << 61 | 1 << 59 | 1 << 16 | 9, 7 << 48, 0, 0, 0];
    let done = rig.command(0x2c, leaf);
    assert!(done.error, "{done:x?}");
    assert_eq!(rig.env.kinds(), ["cqp-state"]);
    rig.env.findings.clear();
    rig.env.no_vsi = false;
    rig.good(0x2c, leaf);
}

#[test]
fn a_qp_sends_only_on_a_queue_set_that_is_registered() {
    const MARKS: u64 = 1 << 47 | 1 << 59;
    let mut rig = Rig::ready(Config::default());
    let qp = TestQp::create(&mut rig, 3, 7, 1);
    rig.env.no_queue_set = true;
    assert_eq!(qp.modify(&mut rig, 4, MARKS), GOOD, "it may receive");
    let done = qp.modify(&mut rig, 2, MARKS | 1 << 42);
    assert!(done.error, "{done:x?}");
    assert_eq!(rig.env.kinds(), ["cqp-state"]);
    rig.env.findings.clear();
    rig.env.no_queue_set = false;
    assert_eq!(qp.modify(&mut rig, 2, MARKS | 1 << 42), GOOD);
}

#[test]
fn nothing_leaves_a_queue_set_that_was_taken_away() {
    let mut pair = Pair::new(Config::default());
    let stag = pair.regions[1].0;
    pair.qps[1].post_receive(&mut pair.rigs[1], VA, BYTES, stag);
    pair.rigs[0].env.no_queue_set = true;
    pair.post(3, BYTES);
    pair.settle();
    assert!(pair.receive_cqe().is_none());
    // It was not forgotten: the requester sends again when its time is up.
    pair.rigs[0].env.no_queue_set = false;
    for _ in 0..20 {
        pair.rigs[0].env.now += 1_000_000_000;
        pair.settle();
    }
    assert!(pair.receive_cqe().is_some());
    pair.no_findings();
}
