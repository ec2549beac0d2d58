//! What belongs to one vector or queue, and to no other: intervals and limits of
//! interrupts, and entries of completion event queues.

use e810::hmc::Capacity;
use e810::{CqModeration, Data, Event, Notify, Op, SendFlags, SendWr, Wc};
use e810_hal::{Ns, Vector};
use e810_sim::{Sim, SimPlatform};
use e810_tests::traffic::{Pair, Setup, Side, Watched};

type Simulated = Pair<Watched<SimPlatform>>;

/// Both queues of the second side always have something: what that does to the
/// interrupts of their vectors. The times between them, of each.
fn between(set: impl FnOnce(&mut Side<Watched<SimPlatform>>)) -> [Vec<u64>; 2] {
    let sim = Sim::builder().functions(2).seed(70).build();
    let setup = Setup {
        separate_cqs: true,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    pair.sides.iter_mut().for_each(|side| side.polling = false);
    set(&mut pair.sides[1]);
    for part in &mut pair.sides[1].events {
        let _ = part.on_vector(&mut |_| {});
    }
    let _ = sim.take_interrupts(1);
    let vectors = [0, 1].map(|cq| {
        let number = pair.sides[1].cqs[cq].completion_vector();
        pair.sides[1].control.interrupt_vector(number).unwrap()
    });
    assert_ne!(vectors[0], vectors[1]);
    let mut fired = [Vec::new(), Vec::new()];
    (0..2).for_each(|cq| load(&mut pair, cq));
    let end = sim.now().0 + 2_000_000;
    while sim.now().0 < end {
        sim.run(Ns(500));
        for cq in &mut pair.sides[0].cqs {
            while cq.poll(&mut [Wc::default(); 8]) > 0 {}
        }
        for vector in sim.take_interrupts(1) {
            let cq = vectors.iter().position(|own| *own == vector).unwrap();
            fired[cq].push(sim.now().0);
            serve(&mut pair.sides[1], vector);
            while pair.sides[1].cqs[cq].poll(&mut [Wc::default(); 8]) > 0 {}
            load(&mut pair, cq);
        }
    }
    fired.map(|times| times.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

fn serve(side: &mut Side<Watched<SimPlatform>>, vector: Vector) {
    for part in side
        .events
        .iter_mut()
        .filter(|part| part.vector() == vector)
    {
        let _ = part.on_vector(&mut |_| {});
    }
}

/// Asks for the next event of a queue, and causes its completion: a request of the
/// second side's, or a message for it.
fn load(pair: &mut Simulated, cq: usize) {
    assert!(!pair.sides[1].cqs[cq].arm(Notify::Any));
    let (from, to) = if cq == 0 { (1, 0) } else { (0, 1) };
    pair.sides[to].post_recv(0, 1, &[]).unwrap();
    let op = Op::Send {
        data: Data::Inline(&[]),
        imm: None,
    };
    let request = SendWr {
        wr_id: 2,
        op,
        flags: SendFlags::SIGNALED,
    };
    pair.sides[from].post_send(0, &[request]).unwrap();
}

/// Within twice the steps that the clock goes in here.
fn all_are(times: &[u64], expected_us: u64) {
    let expected = expected_us * 1_000;
    assert!(times.len() as u64 >= 1_500_000 / expected.max(20_000));
    let near = |time: &u64| (expected - 1_000..=expected + 1_000).contains(time);
    assert!(
        times.iter().skip(1).all(near),
        "{times:?}, not {expected_us} µs"
    );
}

#[test]
fn each_vector_has_an_interval_of_its_own() {
    let period = |period_us| CqModeration::Fixed {
        count: 0,
        period_us,
    };
    for us in [[40, 100], [100, 40]] {
        let found = between(|side| {
            for (cq, us) in side.cqs.iter_mut().zip(us) {
                side.control.modify_cq(cq, period(us)).unwrap();
            }
        });
        all_are(&found[0], us[0].into());
        all_are(&found[1], us[1].into());
    }
}

#[test]
fn each_vector_has_a_limit_of_its_own() {
    for us in [[40, 100], [100, 40]] {
        let found = between(|side| {
            for (cq, us) in side.cqs.iter().zip(us) {
                let vector = cq.completion_vector();
                side.control.limit_interrupts(vector, us).unwrap();
            }
        });
        all_are(&found[0], us[0].into());
        all_are(&found[1], us[1].into());
    }
}

/// CREATE_CEQ names as many entries as there are CQs: the driver walks that many, and
/// the device, which has the number from the command alone, turns back where the
/// driver does.
#[test]
fn a_completion_event_queue_has_an_entry_for_each_completion_queue() {
    for cqs in [8, 37, 128] {
        let sim = Sim::builder().functions(2).seed(71).build();
        let setup = Setup {
            capacity: Some(Capacity {
                cqs,
                ..Capacity::DEFAULT
            }),
            ..Setup::default()
        };
        let mut pair = Pair::simulated(&sim, setup);
        pair.sides.iter_mut().for_each(|side| side.polling = false);
        let entries = |part: &e810::VectorEvents<_>| part.depth().map(|depth| depth.entries);
        let sizes: Vec<u32> = pair.sides[1].events.iter().filter_map(entries).collect();
        assert!(!sizes.is_empty());
        // Those that programs can have, and the three that are reserved.
        let there = pair.sides[1].control.query_device().max_cq + 3;
        assert!(there >= cqs);
        assert!(
            sizes.iter().all(|size| *size == there),
            "{sizes:?}, {there} CQs"
        );
        pair.sides[1].progress();
        let number = pair.sides[1].cqs[0].number();
        for lap in 0..2 * there + 3 {
            assert!(!pair.sides[1].cqs[0].arm(Notify::Any));
            pair.message(SendFlags::empty());
            sim.run(Ns(5_000));
            while pair.sides[0].cqs[0].poll(&mut [Wc::default(); 8]) > 0 {}
            let mut reported = Vec::new();
            for part in &mut pair.sides[1].events {
                let _ = part.poll(&mut |event| reported.push(event));
            }
            assert_eq!(
                reported,
                [Event::Completion { cq: number }],
                "{lap} of {there}"
            );
            assert_eq!(pair.sides[1].cqs[0].poll(&mut [Wc::default(); 8]), 1);
        }
        pair.finish(&sim);
    }
}
