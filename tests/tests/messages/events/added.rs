//! Moderation of completion vectors that come and go at run time.

use e810::{CqModeration, Notify, SendFlags, VectorEvents, Wc};
use e810_hal::Ns;
use e810_hal::regs::GLINT_RATE;
use e810_sim::{Sim, SimPlatform};
use e810_tests::traffic::{End, Pair, Setup, Watched};

use crate::events::moderation::interval;

type Added = VectorEvents<Watched<SimPlatform>>;

/// Takes messages one by one on the second side's last queue, each as its interrupt
/// comes; the time from each interrupt to the next.
fn between(sim: &Sim, pair: &mut Pair<Watched<SimPlatform>>, added: &mut Added) -> Vec<u64> {
    let mut times = Vec::new();
    for _ in 0..6 {
        assert!(!pair.side(1).cqs.last_mut().unwrap().arm(Notify::Any));
        pair.message(SendFlags::empty());
        let end = sim.now() + Ns::from_ms(1);
        while !sim.take_interrupts(1).contains(&added.vector()) {
            assert!(sim.now() < end, "no interrupt");
            sim.run(Ns(100));
        }
        times.push(sim.now().0);
        let mut reported = 0;
        let _ = added.on_vector(&mut |_| reported += 1);
        let cq = pair.side(1).cqs.last_mut().unwrap();
        assert!(cq.take_event());
        assert_eq!((reported, cq.poll(&mut [Wc::default(); 2])), (1, 1));
        while pair.side(0).cqs[0].poll(&mut [Wc::default(); 2]) > 0 {}
    }
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// A vector that was added is moderated as the others are, by itself, and nothing of
/// that is left when it is removed: neither on a new vector nor on one of the
/// bring-up that comes again.
#[test]
fn a_vector_that_was_added_is_moderated_and_begins_anew() {
    for dynamic in [true, false] {
        let sim = Sim::builder().functions(2).seed(1).build();
        let mut pair = Pair::simulated(&sim, Setup::default());
        let side = pair.side(1);
        side.polling = false;
        if !dynamic {
            let last = side.events.pop().unwrap();
            side.control.remove_completion_vector(last).unwrap();
        }
        let mut was = None;
        for period_us in [100, 0, 8] {
            let side = pair.side(1);
            let mut added = side.control.add_completion_vector().unwrap();
            let (number, vector) = (added.completion_vector().unwrap(), added.vector());
            assert_eq!(*was.get_or_insert((number, vector)), (number, vector));
            assert_eq!(
                interval(&side.platform, 0, vector),
                0,
                "as nothing was said"
            );
            assert_eq!(GLINT_RATE.at(vector).get(&side.platform), 0);
            let mut cq = side.control.create_cq(64, number).unwrap();
            assert_eq!(
                (cq.completion_vector(), cq.moderation().wait_us),
                (number, 0)
            );
            if period_us > 0 {
                let fixed = CqModeration::Fixed {
                    count: 0,
                    period_us,
                };
                side.control.modify_cq(&mut cq, fixed).unwrap();
            }
            assert_eq!(interval(&side.platform, 0, vector), u32::from(period_us));
            for part in &side.events {
                assert_eq!(interval(&side.platform, 0, part.vector()), 0);
            }
            side.cqs.push(cq);
            for side in [0, 1] {
                pair.renew(End { side, qp: 0 });
            }
            for side in [0, 1] {
                pair.connect(End { side, qp: 0 });
            }
            let least = u64::from(period_us) * 1000;
            for time in between(&sim, &mut pair, &mut added) {
                let slow = if period_us == 100 { 102_000 } else { 20_000 };
                assert!((least..slow).contains(&time), "{period_us} µs: {time} ns");
            }
            let side = pair.side(1);
            side.control.limit_interrupts(number, 48).unwrap();
            assert_ne!(GLINT_RATE.at(vector).get(&side.platform), 0);
            let cq = side.cqs.pop().unwrap();
            pair.renew(End { side: 1, qp: 0 });
            let control = &mut pair.side(1).control;
            control.destroy_cq(cq).unwrap();
            control.remove_completion_vector(added).unwrap();
        }
        if !dynamic {
            let side = pair.side(1);
            let last = side.control.add_completion_vector().unwrap();
            side.events.push(last).unwrap();
        }
        pair.finish(&sim);
    }
}
