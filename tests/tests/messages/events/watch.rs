//! What can be seen of queues and vectors at work.

use e810::{Adaptive, CqModeration, Data, Depth, Error, Object, Op, SendFlags, SendWr, Timer};
use e810_hal::Ns;
use e810_sim::Sim;
use e810_tests::traffic::{Pair, Setup};

#[test]
fn queues_say_how_full_they_are() {
    let sim = Sim::builder().functions(2).seed(60).build();
    let mut pair = Pair::simulated(&sim, Setup::default());
    pair.sides.iter_mut().for_each(|side| side.polling = false);
    let entries = pair.sides[1].cqs[0].entries();
    let of = |waiting| Depth { entries, waiting };
    assert_eq!(pair.sides[1].cqs[0].depth(), of(0));
    // That of the commands' own queue is taken first.
    pair.sides[1].progress();
    assert!(!pair.sides[1].cqs[0].arm(e810::Notify::Any));
    for wr_id in 0..3 {
        pair.sides[1].post_recv(0, wr_id, &[]).unwrap();
        // Immediate data take a second entry.
        let op = Op::Send {
            data: Data::Inline(&[]),
            imm: (wr_id == 0).then_some(7),
        };
        let request = SendWr {
            wr_id,
            op,
            flags: SendFlags::SIGNALED,
        };
        pair.sides[0].post_send(0, &[request]).unwrap();
    }
    sim.run(Ns::from_ms(1));
    assert_eq!(pair.sides[1].cqs[0].depth(), of(4));
    // The CQ had asked once, so one entry is in the CEQ of its vector.
    let events = pair.sides[1].events.iter();
    let waiting: Vec<u32> = events
        .filter_map(|events| events.depth())
        .map(|depth| {
            assert!(depth.entries > depth.waiting);
            depth.waiting
        })
        .collect();
    assert_eq!(waiting.iter().sum::<u32>(), 1, "{waiting:?}");
    pair.sides[1].progress();
    let waiting = |events: &e810::VectorEvents<_>| events.depth().map_or(0, |depth| depth.waiting);
    assert!(
        pair.sides[1]
            .events
            .iter()
            .all(|events| waiting(events) == 0)
    );
    let mut wcs = [e810::Wc::default(); 2];
    assert_eq!(pair.sides[1].cqs[0].poll(&mut wcs), 2);
    assert_eq!(pair.sides[1].cqs[0].depth(), of(1));
    assert_eq!(pair.sides[1].cqs[0].poll(&mut wcs), 1);
    assert_eq!(pair.sides[0].cqs[0].poll(&mut [e810::Wc::default(); 4]), 3);
    pair.finish(&sim);
}

#[test]
fn vectors_say_what_delays_them() {
    let sim = Sim::builder().functions(2).seed(61).build();
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[1];
    let vector = side.cqs[0].completion_vector();
    let timing = side.control.interrupt_timing(vector).unwrap();
    assert_ne!(timing.timer, Timer::None);
    assert_eq!((timing.interval_us, timing.limit_us), (0, 0));

    let fixed = CqModeration::Fixed {
        count: 0,
        period_us: 51,
    };
    side.control.modify_cq(&mut side.cqs[0], fixed).unwrap();
    side.control.limit_interrupts(vector, 22).unwrap();
    let timing = side.control.interrupt_timing(vector).unwrap();
    assert_eq!((timing.interval_us, timing.limit_us), (50, 20));
    let moderated = side.cqs[0].moderation();
    assert_eq!((moderated.setting, moderated.wait_us), (fixed, 50));
    assert_eq!(moderated.profile, None);

    for kind in [Adaptive::Load, Adaptive::Dim] {
        let adaptive = CqModeration::Adaptive(kind);
        side.control.modify_cq(&mut side.cqs[0], adaptive).unwrap();
        let moderated = side.cqs[0].moderation();
        assert_eq!(moderated.setting, adaptive);
        let (index, of) = moderated.profile.unwrap();
        assert!(index < of && of > 1);
    }
    assert_eq!(
        side.control.interrupt_timing(99),
        Err(Error::NoSuch {
            object: Object::CompletionVector,
            id: 99
        })
    );
    pair.finish(&sim);
}
