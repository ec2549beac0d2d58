//! The engine with an incomplete LAN side: a VSI unknown to the switch, a queue set unknown to the
//! scheduler.

use super::engine_pair::{BYTES, EnginePair, VA};
use super::qp::TestQp;
use super::test_driver::{GOOD, TestDriver};
use crate::pe::Config;

#[test]
fn a_node_needs_a_vsi() {
    let mut driver = TestDriver::ready(Config::default());
    driver.env.no_vsi = true;
    let leaf = [0, 0, 0, 1 << 61 | 1 << 59 | 1 << 16 | 9, 7 << 48, 0, 0, 0];
    let done = driver.command(0x2c, leaf);
    assert!(done.error, "{done:x?}");
    assert_eq!(driver.env.kinds(), ["cqp-state"]);
    driver.env.findings.clear();
    driver.env.no_vsi = false;
    driver.good(0x2c, leaf);
}

#[test]
fn a_qp_sends_only_on_a_queue_set_that_is_registered() {
    const MARKS: u64 = 1 << 47 | 1 << 59;
    let mut driver = TestDriver::ready(Config::default());
    let qp = TestQp::create(&mut driver, 3, 7, 1);
    driver.env.no_queue_set = true;
    qp.add_neighbour(&mut driver);
    assert_eq!(qp.modify(&mut driver, 4, MARKS), GOOD, "it may receive");
    let done = qp.modify(&mut driver, 2, MARKS | 1 << 42);
    assert!(done.error, "{done:x?}");
    assert_eq!(driver.env.kinds(), ["cqp-state"]);
    driver.env.findings.clear();
    driver.env.no_queue_set = false;
    assert_eq!(qp.modify(&mut driver, 2, MARKS | 1 << 42), GOOD);
}

#[test]
fn nothing_leaves_a_queue_set_that_was_taken_away() {
    let mut pair = EnginePair::new(Config::default());
    let stag = pair.regions[1].0;
    pair.qps[1].post_receive(&mut pair.rigs[1], VA, BYTES, stag);
    pair.rigs[0].env.no_queue_set = true;
    pair.post(3, BYTES);
    pair.settle();
    assert!(pair.receive_cqe().is_none());
    // It is not lost: the requester retransmits when its timer expires.
    pair.rigs[0].env.no_queue_set = false;
    for _ in 0..20 {
        pair.rigs[0].env.now += 1_000_000_000;
        pair.settle();
    }
    assert!(pair.receive_cqe().is_some());
    pair.no_findings();
}
