//! Receives that come late or never.

use super::*;

fn world() -> World {
    World::new(PathMtu::B256)
}

#[test]
fn a_late_receive_is_waited_for() {
    for size in [0, 10, 600] {
        let mut world = world();
        world.a.post(&Post::send(&[(0, size)]));
        world.settle();
        assert_eq!((world.a.node.sent.len(), world.a.node.events.len()), (0, 0));
        assert_eq!(world.a.state.next_deadline(), Some(rnr_ns(RNR_TIMER_CODE)));
        let before = world.frames;
        // Nothing is sent while waiting, not even what is new.
        world.a.post(&Post::write(&[(0, 10)], 0));
        world.settle();
        assert_eq!(world.frames, before);
        world.b.receive(&[(5000, 1000)]);
        world.run();
        clean(&world);
        assert_eq!(
            (world.a.node.sent.len(), world.b.node.received.len()),
            (2, 1)
        );
        assert_eq!(world.a.node.now, rnr_ns(RNR_TIMER_CODE));
    }
}

#[test]
fn a_write_with_immediate_needs_a_receive_for_its_last_packet() {
    let mut world = world();
    world.a.node.memory[512..600].fill(0x99);
    world.a.post(&Post::write(&[(0, 600)], 5000).immediate(1));
    world.settle();
    let untouched = world.b.node.bytes(5512, 88).to_vec();
    assert_ne!(untouched, world.a.node.bytes(512, 88));
    assert_eq!(world.b.node.received, []);
    world.b.receive(&[]);
    world.run();
    clean(&world);
    assert_eq!(world.b.node.received.len(), 1);
    assert_eq!(world.b.node.bytes(5000, 600), world.a.node.bytes(0, 600));
}

#[test]
fn a_receive_that_never_comes() {
    for rnr_retry in [0, 3] {
        let mut world = world();
        world.a.state.config.rnr_retry = rnr_retry;
        world.a.post(&Post::write(&[(0, 10)], 0));
        let index = world.a.post(&Post::send(&[(0, 10)]));
        world.run();
        assert_eq!(event(&world.a), (0x050F, 0x5, index));
        assert_eq!(
            world.a.node.now,
            u64::from(rnr_retry) * rnr_ns(RNR_TIMER_CODE)
        );
        assert_eq!(world.b.node.events, []);
        assert_eq!(world.a.node.sent.len(), 1);
        assert_eq!(world.a.emit(), [] as [Vec<u8>; 0]);
    }
}

#[test]
fn rnr_retry_seven_never_ends() {
    let mut world = world();
    world.a.post(&Post::send(&[(0, 10)]));
    for round in 1..=50 {
        world.settle();
        assert_eq!(world.a.node.events, []);
        let at = world.a.state.next_deadline().unwrap();
        assert_eq!(at, round * rnr_ns(RNR_TIMER_CODE));
        world.a.node.now = at;
        assert!(timer(&mut world.a.state, &mut world.a.node));
    }
    world.b.receive(&[(0, 10)]);
    world.run();
    clean(&world);
}

#[test]
fn progress_refills_the_retries() {
    // Every message is turned away twice; three messages need six RNR retries in all.
    let mut world = world();
    world.a.state.config.rnr_retry = 2;
    for _ in 0..3 {
        world.a.post(&Post::send(&[(0, 10)]));
        for _ in 0..2 {
            world.settle();
            world.a.node.now = world.a.state.next_deadline().unwrap();
            timer(&mut world.a.state, &mut world.a.node);
        }
        world.b.receive(&[(0, 10)]);
        world.run();
    }
    clean(&world);
    assert_eq!(world.a.node.sent.len(), 3);
}
