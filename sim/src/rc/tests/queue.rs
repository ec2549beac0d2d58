//! The send queue: order, fences, wrap, window, modes.

use super::*;
use crate::wqe::Lints;

fn testbed() -> Testbed {
    Testbed::new(PathMtu::B256)
}

#[test]
fn unsignaled_requests_complete_silently() {
    let mut testbed = testbed();
    let mut last = 0;
    for number in 0..5 {
        let post = Post::write(&[(0, 10)], 0);
        last = testbed
            .a
            .post(&if number == 4 { post } else { post.unsignaled() });
    }
    testbed.run();
    clean(&testbed);
    assert_eq!(sent(&testbed.a), [(last, 0)]);
}

#[test]
fn local_operations_complete_in_order() {
    let mut testbed = testbed();
    let write = testbed.a.post(&Post::write(&[(0, 10)], 0));
    let nop = testbed.a.post(&Post::nop());
    let invalidate = testbed.a.post(&Post::local_invalidate(RKEY));
    testbed.a.poll();
    // The local operations are done, but nothing completes before the write is acknowledged.
    assert_eq!(testbed.a.node.invalidated, [(RKEY, Invalidator::Local)]);
    assert_eq!(testbed.a.node.sent, []);
    testbed.run();
    assert_eq!(
        sent(&testbed.a),
        [(write, 0), (nop, 0x0c), (invalidate, 0x0a)]
    );
    // Fast register goes to the host and sends nothing.
    testbed.a.post(&Post::nop().opcode(9));
    let frames = testbed.frames;
    testbed.run();
    assert_eq!(
        (testbed.a.node.local_operations, testbed.frames),
        (1, frames)
    );
    assert_eq!(
        sent(&testbed.a).last().map(|completion| completion.1),
        Some(9)
    );
}

#[test]
fn local_fence_waits_for_everything_before() {
    let mut testbed = testbed();
    testbed.a.post(&Post::write(&[(0, 10)], 0));
    testbed.a.post(&Post::local_invalidate(RKEY).local_fence());
    testbed.a.poll();
    assert_eq!(testbed.a.node.invalidated, []);
    testbed.run();
    clean(&testbed);
    assert_eq!(testbed.a.node.invalidated.len(), 1);
    assert_eq!(testbed.a.node.sent.len(), 2);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn rings_wrap_and_flip_polarity() {
    let mut testbed = testbed();
    for round in 0..200_u32 {
        let len = round * 7 % 600;
        let slot = testbed.b.receive(&[(0, 300), (1000, 300)]);
        // Entries of 1 to 3 quanta, so that chunks need pads.
        let pieces = [(0, len / 2), (5000, len - len / 2), (0, 0), (0, 0)];
        let pieces = &pieces[..1 + round as usize % 4];
        let total: u32 = pieces.iter().map(|piece| piece.1).sum();
        let index = testbed.a.post(&Post::send(pieces));
        testbed.run();
        assert_eq!(sent(&testbed.a).last(), Some(&(index, 3)), "round {round}");
        let received = testbed.b.node.received.last().unwrap();
        assert_eq!(
            (received.wqe_index, received.byte_len),
            (slot, total),
            "round {round}"
        );
    }
    clean(&testbed);
    assert_eq!(testbed.a.node.sent.len(), 200);
    assert_eq!(testbed.b.node.received.len(), 200);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn the_window_bounds_what_is_unacknowledged() {
    for window in [1, 5, 0x20, WINDOW, 0x400] {
        let mut testbed = testbed();
        testbed.a.state.config.window = window;
        testbed.a.post(&Post::write(&[(0, 500_000)], 0));
        let first = testbed.a.emit();
        assert_eq!(first.len(), window as usize);
        for frame in &first {
            testbed.b.take_in(frame);
        }
        // Packets that arrive together are acknowledged together.
        let answers = testbed.b.emit();
        assert_eq!(answers.len(), 1);
        testbed.a.take_in(&answers[0]);
        testbed.run();
        // A full window never waits for the timer.
        assert_eq!(testbed.a.node.now, 0);
        clean(&testbed);
        assert!(testbed.b.node.bytes(0, 500_000) == testbed.a.node.bytes(0, 500_000));
    }
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn one_call_sends_no_more_than_the_budget() {
    let mut testbed = testbed();
    testbed.a.post(&Post::write(&[(0, 100_000)], 0));
    assert!(poll(&mut testbed.a.state, &mut testbed.a.node));
    assert_eq!(testbed.a.node.out.len(), POLL_BUDGET as usize);
    testbed.b.post(&Post::read(&[(0, 100_000)], 0));
    for frame in testbed.b.emit() {
        testbed.a.take_in(&frame);
    }
    testbed.a.node.out.clear();
    assert!(poll(&mut testbed.a.state, &mut testbed.a.node));
    assert_eq!(testbed.a.node.out.len(), POLL_BUDGET as usize);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn ignored_bits_of_a_request_are_reported_once() {
    let mut testbed = testbed();
    testbed
        .a
        .post(&Post::write(&[(0, 30_000)], 0).flags(1 << 43));
    testbed.run();
    assert_eq!(testbed.a.node.lints, [(Ring::Send, 0, Lints::HEADER)]);
    assert_eq!(testbed.a.node.sent.len(), 1);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn a_draining_queue_begins_nothing_new() {
    let mut testbed = testbed();
    testbed.a.post(&Post::write(&[(0, 100_000)], 0));
    poll(&mut testbed.a.state, &mut testbed.a.node);
    testbed.a.post(&Post::write(&[(0, 10)], 0));
    testbed.a.state.set_mode(Mode::Sqd);
    assert!(!testbed.a.state.send_queue_idle());
    testbed.run();
    assert_eq!(testbed.a.node.sent.len(), 1);
    assert!(testbed.a.state.send_queue_idle());
    testbed.a.state.set_mode(Mode::Rts);
    testbed.run();
    clean(&testbed);
    assert_eq!(testbed.a.node.sent.len(), 2);
}

#[test]
fn ready_to_receive_answers_but_does_not_send() {
    let mut testbed = testbed();
    testbed.b.state.set_mode(Mode::Rtr);
    testbed.b.receive(&[(0, 100)]);
    testbed.b.post(&Post::send(&[(0, 10)]));
    testbed.a.post(&Post::send(&[(0, 10)]));
    testbed.run();
    assert_eq!(
        (testbed.a.node.sent.len(), testbed.b.node.received.len()),
        (1, 1)
    );
    assert_eq!(testbed.a.node.received.len() + testbed.b.node.sent.len(), 0);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn a_message_between_two_calls_is_not_idle() {
    // From PSN 0 on, the last packet of the first call requests an acknowledge.
    let mut testbed = Testbed::with_psns(PathMtu::B256, 0, 0);
    testbed.a.post(&Post::write(&[(0, 100 * 256)], 0));
    assert!(poll(&mut testbed.a.state, &mut testbed.a.node));
    for frame in std::mem::take(&mut testbed.a.node.out) {
        testbed.b.take_in(&frame);
    }
    for frame in testbed.b.emit() {
        testbed.a.take_in(&frame);
    }
    assert_eq!(testbed.a.state.psns(), (POLL_BUDGET, POLL_BUDGET, 0));
    assert_eq!(testbed.a.state.next_deadline(), None);
    assert!(!testbed.a.state.send_queue_idle());
    testbed.run();
    clean(&testbed);
}
