//! Errors that stop a QP: the event they report, and that nothing else is written.

use super::*;
use crate::rc::tests::node::Stag;
use crate::rc::tests::testbed::End;
use crate::wire::Packet;

fn testbed() -> Testbed {
    Testbed::new(PathMtu::B256)
}

/// A stopped end sends nothing.
fn silent(end: &mut End) {
    let (sent, received) = (end.node.sent.len(), end.node.received.len());
    end.post(&Post::write(&[(0, 10)], 0));
    end.receive(&[(0, 10)]);
    assert_eq!(end.emit(), [] as [Vec<u8>; 0]);
    assert_eq!(end.state.next_deadline(), None);
    assert!(!timer(&mut end.state, &mut end.node));
    assert_eq!(
        (end.node.sent.len(), end.node.received.len()),
        (sent, received),
        "no flush completion"
    );
    assert_eq!(end.node.events.len(), 1);
}

/// Posts one good write and then `post`; returns both events. The good write must have completed.
fn both_stop(mut testbed: Testbed, post: &Post) -> [(u16, u8, u16); 2] {
    testbed.a.post(&Post::write(&[(0, 600)], 0));
    let index = testbed.a.post(post);
    testbed.a.post(&Post::write(&[(0, 600)], 0));
    testbed.run();
    assert_eq!(testbed.a.node.sent.len(), 1);
    let (a, b) = (event(&testbed.a), event(&testbed.b));
    assert_eq!(a.2, index);
    silent(&mut testbed.a);
    silent(&mut testbed.b);
    [a, b]
}

/// Only the sender stops; the other end does not notice.
fn sender_stops(mut testbed: Testbed, post: &Post) -> (u16, u8) {
    testbed.a.post(&Post::nop());
    let index = testbed.a.post(post);
    testbed.run();
    let (code, source, at) = event(&testbed.a);
    assert_eq!(at, index);
    assert_eq!(
        (testbed.b.node.events.len(), testbed.b.node.received.len()),
        (0, 0)
    );
    silent(&mut testbed.a);
    (code, source)
}

#[test]
fn remote_memory_refused() {
    for (change, code) in [
        (None, 0x0107),
        (
            Some(Stag {
                pd: 99,
                rights: vec![Right::RemoteRead, Right::RemoteWrite],
                valid: true,
            }),
            0x0105,
        ),
        (
            Some(Stag {
                pd: 5,
                rights: vec![Right::LocalRead],
                valid: true,
            }),
            0x0109,
        ),
        (
            Some(Stag {
                pd: 5,
                rights: vec![Right::RemoteRead, Right::RemoteWrite],
                valid: false,
            }),
            0x0103,
        ),
    ] {
        let world_with = |change: &Option<Stag>| {
            let mut testbed = testbed();
            testbed
                .b
                .node
                .stags
                .extend(change.clone().map(|stag| (0x300, stag)));
            testbed
        };
        let write = both_stop(world_with(&change), &Post::write(&[(0, 600)], 0).low(0x300));
        assert_eq!(
            write.map(|event| (event.0, event.1)),
            [(0x020D, 0x5), (code, 0x9)]
        );
        let read = both_stop(world_with(&change), &Post::read(&[(0, 600)], 0).low(0x300));
        assert_eq!(
            read.map(|event| (event.0, event.1)),
            [(0x020D, 0x5), (code, 0xD)]
        );
    }
    let outside = both_stop(testbed(), &Post::write(&[(0, 600)], node::SIZE - 599));
    assert_eq!(outside.map(|event| event.0), [0x020D, 0x0108]);
}

#[test]
fn an_empty_write_or_read_needs_no_right() {
    let mut testbed = testbed();
    testbed.a.post(&Post::write(&[], 0).low(0x300));
    testbed
        .a
        .post(&Post::read(&[(0, 0)], node::SIZE * 2).low(0x300));
    testbed.run();
    clean(&testbed);
    assert_eq!(testbed.a.node.sent.len(), 2);
}

#[test]
fn operations_that_the_responder_does_not_accept() {
    let mut no_read = testbed();
    no_read.b.state.config.read_ok = false;
    let events = both_stop(no_read, &Post::read(&[(0, 10)], 0));
    assert_eq!(
        events.map(|event| (event.0, event.1)),
        [(0x0208, 0x5), (0x0313, 0xD)]
    );

    let mut testbed = testbed();
    testbed.b.state.config.write_ok = false;
    testbed.a.post(&Post::write(&[(0, 10)], 0));
    testbed.run();
    assert_eq!(
        (event(&testbed.a).0, event(&testbed.b)),
        (0x0208, (0x0314, 0x9, 0))
    );
}

#[test]
fn a_requester_that_does_not_accept_read_responses() {
    let mut testbed = testbed();
    testbed.a.state.config.write_ok = false;
    testbed.a.post(&Post::read(&[(0, 10)], 0));
    testbed.run();
    assert_eq!(event(&testbed.a), (0x0314, 0x9, 0));
}

#[test]
fn a_message_too_long_for_the_receive() {
    for len in [101, 600] {
        let mut testbed = testbed();
        testbed.b.receive(&[(0, 1000)]);
        let slot = testbed.b.receive(&[(2000, 60), (3000, 40)]);
        testbed.a.post(&Post::send(&[(0, 1000)]));
        let index = testbed.a.post(&Post::send(&[(0, len)]));
        testbed.run();
        assert_eq!(event(&testbed.b), (0x0303, 0x1, slot), "{len}");
        assert_eq!(event(&testbed.a), (0x0208, 0x5, index), "{len}");
        assert_eq!(
            (testbed.a.node.sent.len(), testbed.b.node.received.len()),
            (1, 1)
        );
        assert_eq!(testbed.b.state.receive_head(), (slot, true));
        assert_eq!(testbed.a.state.send_head(), (index, true));
        silent(&mut testbed.a);
        silent(&mut testbed.b);
    }
}

#[test]
fn local_memory_refused() {
    assert_eq!(
        sender_stops(testbed(), &Post::send(&[(0, 10)]).lkey(0x999)),
        (0x0107, 0x5)
    );
    assert_eq!(
        sender_stops(testbed(), &Post::write(&[(node::SIZE - 5, 10)], 0)),
        (0x0108, 0x5)
    );
    assert_eq!(
        sender_stops(testbed(), &Post::write(&[(0, 10)], 0).lkey(RKEY)),
        (0x0109, 0x5)
    );

    // The sink of a read, checked when the response arrives.
    for (blames_read, source) in [(false, 0x9), (true, 0x5)] {
        let mut testbed = testbed();
        testbed.a.state.config.blames_read = blames_read;
        let index = testbed.a.post(&Post::read(&[(0, 10)], 0).lkey(0x999));
        testbed.run();
        assert_eq!(event(&testbed.a), (0x0107, source, index));
    }
}

#[test]
fn a_receive_buffer_refused() {
    let mut testbed = testbed();
    testbed.b.receive(&[(0, 100)]);
    let slot = testbed
        .b
        .software
        .receive_with(&mut testbed.b.node, &[(0, 100)], 0x999);
    testbed.a.post(&Post::send(&[(0, 10)]));
    let index = testbed.a.post(&Post::send(&[(0, 10)]));
    testbed.run();
    assert_eq!(event(&testbed.b), (0x0107, 0x1, slot));
    assert_eq!(event(&testbed.a), (0x020E, 0x5, index));
    assert_eq!(testbed.b.node.received.len(), 1);
}

#[test]
fn memory_that_the_iommu_refuses() {
    let mut local = testbed();
    local.a.node.broken_memory = true;
    local.a.post(&Post::write(&[(0, 10)], 0));
    local.run();
    assert_eq!(event(&local.a), (0x0704, 0x0, 0));

    for post in [Post::write(&[(0, 10)], 0), Post::send(&[(0, 10)])] {
        let mut remote = testbed();
        remote.b.receive(&[(0, 10)]);
        remote.b.node.broken_memory = true;
        remote.a.post(&post);
        remote.run();
        assert_eq!(
            (event(&remote.b), event(&remote.a).0),
            ((0x0704, 0x0, 0), 0x020E)
        );
    }
    let mut rings = testbed();
    rings.a.node.broken_rings = true;
    rings.run();
    assert_eq!(event(&rings.a), (0x0704, 0x0, 0));

    let mut cq = testbed();
    cq.a.node.broken_cq = true;
    cq.a.post(&Post::write(&[(0, 10)], 0));
    cq.run();
    assert_eq!(event(&cq.a), (0x0704, 0x0, 0));
    assert!(cq.b.node.events.is_empty());
}

#[test]
fn a_remote_invalidate_refused() {
    let mut testbed = testbed();
    let slot = testbed.b.receive(&[(0, 100)]);
    testbed.a.post(&Post::send(&[(0, 10)]).opcode(4).low(LKEY));
    testbed.run();
    assert_eq!(event(&testbed.b), (0x0112, 0x1, slot));
    assert_eq!(event(&testbed.a).0, 0x020D);
    assert_eq!(testbed.b.node.received, []);
}

#[test]
fn local_operations_refused() {
    let bind = Post::nop().opcode(8);
    assert_eq!(sender_stops(testbed(), &bind), (0x011B, 0x5));
    assert_eq!(
        sender_stops(testbed(), &Post::local_invalidate(0x999)),
        (0x0107, 0x5)
    );
    // iWARP connection set-up on a RoCE QP.
    assert_eq!(
        sender_stops(testbed(), &Post::nop().opcode(0x30)),
        (0x020A, 0x5)
    );
}

#[test]
fn entries_that_cannot_be_executed() {
    assert_eq!(
        sender_stops(testbed(), &Post::nop().opcode(2)),
        (0x020A, 0x5)
    );
    assert_eq!(
        sender_stops(testbed(), &Post::nop().opcode(0x11)),
        (0x020A, 0x5)
    );
    assert_eq!(
        sender_stops(testbed(), &Post::nop().opcode(3).flags(1 << 57 | 102 << 48)),
        (0x020B, 0x5)
    );
    assert_eq!(
        sender_stops(testbed(), &Post::nop().opcode(3).flags(15 << 38)),
        (0x020B, 0x5)
    );
    // The null fragment has lost its valid bit.
    assert_eq!(
        sender_stops(testbed(), &Post::nop().opcode(3)),
        (0x020C, 0x5)
    );
    // 2^31 bytes in total.
    let long = Post::write(&[(0, 0x7FFF_FFFF), (0, 1)], 0);
    assert_eq!(sender_stops(testbed(), &long), (0x020B, 0x5));
}

#[test]
fn an_entry_across_a_chunk() {
    let mut testbed = testbed();
    for _ in 0..7 {
        testbed.a.post(&Post::nop().unsignaled());
    }
    let valid = 1 << 63;
    testbed.a.software.post_raw(
        &mut testbed.a.node,
        &[0, valid, 0, valid | 3 << 32 | 2 << 38, 0, valid, 0, valid],
    );
    testbed.run();
    assert_eq!(event(&testbed.a), (0x020B, 0x5, 7));
}

#[test]
fn an_entry_taken_back_before_its_completion() {
    let mut testbed = testbed();
    testbed.a.post(&Post::nop().unsignaled());
    let index = testbed.a.post(&Post::write(&[(0, 10)], 0));
    for frame in testbed.a.emit() {
        testbed.b.take_in(&frame);
    }
    testbed.a.node.sq[usize::from(index) * 4 + 3] = 0;
    testbed.run();
    assert_eq!(event(&testbed.a), (0x0704, 0x5, index));
}

#[test]
fn a_read_without_ord() {
    let mut testbed = testbed();
    testbed.a.state.config.ord = 0;
    assert_eq!(
        sender_stops(testbed, &Post::read(&[(0, 10)], 0)),
        (0x0205, 0x5)
    );
}

#[test]
fn a_peer_that_is_gone() {
    for (retry, patience) in [(0, RETRANSMIT_NS), (2, 5_000), (7, RETRANSMIT_NS)] {
        let mut testbed = testbed();
        testbed.a.state.config.retransmit_ns = patience;
        testbed.b.state.set_mode(Mode::Error);
        testbed.a.state.config.retry = retry;
        testbed.a.post(&Post::nop());
        let index = testbed.a.post(&Post::write(&[(0, 600)], 0));
        testbed.run();
        assert_eq!(event(&testbed.a), (0x050A, 0x5, index));
        // Sent once, and once more for each retry.
        assert_eq!(testbed.frames, 3 * (1 + usize::from(retry)));
        assert_eq!(testbed.a.node.now, patience * (1 + u64::from(retry)));
        assert_eq!(testbed.a.node.sent.len(), 1);
        silent(&mut testbed.a);
    }
}

#[test]
fn a_peer_without_backing_for_its_reads() {
    // The memory of a read is removed between request and response.
    let mut testbed = testbed();
    let index = testbed.a.post(&Post::read(&[(0, 600)], 0));
    for frame in testbed.a.emit() {
        testbed.b.take_in(&frame);
    }
    if let Some(stag) = testbed.b.node.stags.get_mut(&RKEY) {
        stag.valid = false;
    }
    let answers = testbed.b.emit();
    assert_eq!(answers.len(), 1);
    let psn = Packet::parse(&answers[0]).unwrap().headers.bth.psn;
    assert_eq!(psn, 0x12_3456);
    testbed.a.take_in(&answers[0]);
    assert_eq!(event(&testbed.b), (0x0103, 0xD, 0));
    assert_eq!(event(&testbed.a), (0x020D, 0x5, index));
}
