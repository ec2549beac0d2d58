//! The send queue: order, fences, wrap, window, modes.

use super::*;
use crate::wqe::Lints;

fn world() -> World {
    World::new(PathMtu::B256)
}

#[test]
fn unsignaled_requests_complete_silently() {
    let mut world = world();
    let mut last = 0;
    for number in 0..5 {
        let post = Post::write(&[(0, 10)], 0);
        last = world
            .a
            .post(&if number == 4 { post } else { post.unsignaled() });
    }
    world.run();
    clean(&world);
    assert_eq!(sent(&world.a), [(last, 0)]);
}

#[test]
fn local_operations_complete_in_order() {
    let mut world = world();
    let write = world.a.post(&Post::write(&[(0, 10)], 0));
    let nop = world.a.post(&Post::nop());
    let invalidate = world.a.post(&Post::local_invalidate(RKEY));
    world.a.poll();
    // The local operations are done, but nothing completes before the write is acknowledged.
    assert_eq!(world.a.node.invalidated, [(RKEY, Invalidator::Local)]);
    assert_eq!(world.a.node.sent, []);
    world.run();
    assert_eq!(
        sent(&world.a),
        [(write, 0), (nop, 0x0c), (invalidate, 0x0a)]
    );
    // Fast register goes to the host, with no word on the wire.
    world.a.post(&Post::nop().opcode(9));
    let frames = world.frames;
    world.run();
    assert_eq!((world.a.node.local_operations, world.frames), (1, frames));
    assert_eq!(
        sent(&world.a).last().map(|completion| completion.1),
        Some(9)
    );
}

#[test]
fn local_fence_waits_for_everything_before() {
    let mut world = world();
    world.a.post(&Post::write(&[(0, 10)], 0));
    world.a.post(&Post::local_invalidate(RKEY).local_fence());
    world.a.poll();
    assert_eq!(world.a.node.invalidated, []);
    world.run();
    clean(&world);
    assert_eq!(world.a.node.invalidated.len(), 1);
    assert_eq!(world.a.node.sent.len(), 2);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn rings_wrap_and_flip_polarity() {
    let mut world = world();
    for round in 0..200_u32 {
        let len = round * 7 % 600;
        let slot = world.b.receive(&[(0, 300), (1000, 300)]);
        // Entries of 1 to 3 quanta, so that chunks need pads.
        let pieces = [(0, len / 2), (5000, len - len / 2), (0, 0), (0, 0)];
        let pieces = &pieces[..1 + round as usize % 4];
        let total: u32 = pieces.iter().map(|piece| piece.1).sum();
        let index = world.a.post(&Post::send(pieces));
        world.run();
        assert_eq!(sent(&world.a).last(), Some(&(index, 3)), "round {round}");
        let received = world.b.node.received.last().unwrap();
        assert_eq!(
            (received.wqe_index, received.byte_len),
            (slot, total),
            "round {round}"
        );
    }
    clean(&world);
    assert_eq!(world.a.node.sent.len(), 200);
    assert_eq!(world.b.node.received.len(), 200);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn the_window_bounds_what_is_unacknowledged() {
    for window in [1, 5, 0x20, WINDOW, 0x400] {
        let mut world = world();
        world.a.state.config.window = window;
        world.a.post(&Post::write(&[(0, 500_000)], 0));
        let first = world.a.emit();
        assert_eq!(first.len(), window as usize);
        for frame in &first {
            world.b.take_in(frame);
        }
        // Packets that arrive together are acknowledged together.
        let answers = world.b.emit();
        assert_eq!(answers.len(), 1);
        world.a.take_in(&answers[0]);
        world.run();
        // A full window never waits for the clock.
        assert_eq!(world.a.node.now, 0);
        clean(&world);
        assert!(world.b.node.bytes(0, 500_000) == world.a.node.bytes(0, 500_000));
    }
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn one_call_sends_no_more_than_the_budget() {
    let mut world = world();
    world.a.post(&Post::write(&[(0, 100_000)], 0));
    assert!(poll(&mut world.a.state, &mut world.a.node));
    assert_eq!(world.a.node.out.len(), POLL_BUDGET as usize);
    world.b.post(&Post::read(&[(0, 100_000)], 0));
    for frame in world.b.emit() {
        world.a.take_in(&frame);
    }
    world.a.node.out.clear();
    assert!(poll(&mut world.a.state, &mut world.a.node));
    assert_eq!(world.a.node.out.len(), POLL_BUDGET as usize);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn what_software_sets_for_nothing_is_told_once() {
    let mut world = world();
    world.a.post(&Post::write(&[(0, 30_000)], 0).flags(1 << 43));
    world.run();
    assert_eq!(world.a.node.lints, [(Ring::Send, 0, Lints::HEADER)]);
    assert_eq!(world.a.node.sent.len(), 1);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn a_draining_queue_begins_nothing_new() {
    let mut world = world();
    world.a.post(&Post::write(&[(0, 100_000)], 0));
    poll(&mut world.a.state, &mut world.a.node);
    world.a.post(&Post::write(&[(0, 10)], 0));
    world.a.state.set_mode(Mode::Sqd);
    assert!(!world.a.state.send_queue_idle());
    world.run();
    assert_eq!(world.a.node.sent.len(), 1);
    assert!(world.a.state.send_queue_idle());
    world.a.state.set_mode(Mode::Rts);
    world.run();
    clean(&world);
    assert_eq!(world.a.node.sent.len(), 2);
}

#[test]
fn ready_to_receive_answers_but_does_not_send() {
    let mut world = world();
    world.b.state.set_mode(Mode::Rtr);
    world.b.receive(&[(0, 100)]);
    world.b.post(&Post::send(&[(0, 10)]));
    world.a.post(&Post::send(&[(0, 10)]));
    world.run();
    assert_eq!(
        (world.a.node.sent.len(), world.b.node.received.len()),
        (1, 1)
    );
    assert_eq!(world.a.node.received.len() + world.b.node.sent.len(), 0);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn a_message_between_two_calls_is_not_idle() {
    // From PSN 0 on, the last packet of the first call asks for an acknowledge.
    let mut world = World::with_psns(PathMtu::B256, 0, 0);
    world.a.post(&Post::write(&[(0, 100 * 256)], 0));
    assert!(poll(&mut world.a.state, &mut world.a.node));
    for frame in std::mem::take(&mut world.a.node.out) {
        world.b.take_in(&frame);
    }
    for frame in world.b.emit() {
        world.a.take_in(&frame);
    }
    assert_eq!(world.a.state.psns(), (POLL_BUDGET, POLL_BUDGET, 0));
    assert_eq!(world.a.state.next_deadline(), None);
    assert!(!world.a.state.send_queue_idle());
    world.run();
    clean(&world);
}
