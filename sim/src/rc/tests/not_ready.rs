//! Receives that are posted late or never.

use super::*;

fn testbed() -> Testbed {
    Testbed::new(PathMtu::B256)
}

#[test]
fn a_late_receive_is_waited_for() {
    for size in [0, 10, 600] {
        let mut testbed = testbed();
        testbed.a.post(&Post::send(&[(0, size)]));
        testbed.settle();
        assert_eq!(
            (testbed.a.node.sent.len(), testbed.a.node.events.len()),
            (0, 0)
        );
        assert_eq!(
            testbed.a.state.next_deadline(),
            Some(rnr_ns(RNR_TIMER_CODE))
        );
        let before = testbed.frames;
        // While it waits it sends nothing, not even new entries.
        testbed.a.post(&Post::write(&[(0, 10)], 0));
        testbed.settle();
        assert_eq!(testbed.frames, before);
        testbed.b.receive(&[(5000, 1000)]);
        testbed.run();
        clean(&testbed);
        assert_eq!(
            (testbed.a.node.sent.len(), testbed.b.node.received.len()),
            (2, 1)
        );
        assert_eq!(testbed.a.node.now, rnr_ns(RNR_TIMER_CODE));
    }
}

#[test]
fn a_write_with_immediate_needs_a_receive_for_its_last_packet() {
    let mut testbed = testbed();
    testbed.a.node.memory[512..600].fill(0x99);
    testbed.a.post(&Post::write(&[(0, 600)], 5000).immediate(1));
    testbed.settle();
    let untouched = testbed.b.node.bytes(5512, 88).to_vec();
    assert_ne!(untouched, testbed.a.node.bytes(512, 88));
    assert_eq!(testbed.b.node.received, []);
    testbed.b.receive(&[]);
    testbed.run();
    clean(&testbed);
    assert_eq!(testbed.b.node.received.len(), 1);
    assert_eq!(
        testbed.b.node.bytes(5000, 600),
        testbed.a.node.bytes(0, 600)
    );
}

#[test]
fn a_receive_that_never_comes() {
    for rnr_retry in [0, 3] {
        let mut testbed = testbed();
        testbed.a.state.config.rnr_retry = rnr_retry;
        testbed.a.post(&Post::write(&[(0, 10)], 0));
        let index = testbed.a.post(&Post::send(&[(0, 10)]));
        testbed.run();
        assert_eq!(event(&testbed.a), (0x050F, 0x5, index));
        assert_eq!(
            testbed.a.node.now,
            u64::from(rnr_retry) * rnr_ns(RNR_TIMER_CODE)
        );
        assert_eq!(testbed.b.node.events, []);
        assert_eq!(testbed.a.node.sent.len(), 1);
        assert_eq!(testbed.a.emit(), [] as [Vec<u8>; 0]);
    }
}

#[test]
fn rnr_retry_seven_never_ends() {
    let mut testbed = testbed();
    testbed.a.post(&Post::send(&[(0, 10)]));
    for round in 1..=50 {
        testbed.settle();
        assert_eq!(testbed.a.node.events, []);
        let at = testbed.a.state.next_deadline().unwrap();
        assert_eq!(at, round * rnr_ns(RNR_TIMER_CODE));
        testbed.a.node.now = at;
        assert!(timer(&mut testbed.a.state, &mut testbed.a.node));
    }
    testbed.b.receive(&[(0, 10)]);
    testbed.run();
    clean(&testbed);
}

#[test]
fn progress_refills_the_retries() {
    // Every message gets two RNR NAKs; three messages need six RNR retries in total.
    let mut testbed = testbed();
    testbed.a.state.config.rnr_retry = 2;
    for _ in 0..3 {
        testbed.a.post(&Post::send(&[(0, 10)]));
        for _ in 0..2 {
            testbed.settle();
            testbed.a.node.now = testbed.a.state.next_deadline().unwrap();
            timer(&mut testbed.a.state, &mut testbed.a.node);
        }
        testbed.b.receive(&[(0, 10)]);
        testbed.run();
    }
    clean(&testbed);
    assert_eq!(testbed.a.node.sent.len(), 3);
}
