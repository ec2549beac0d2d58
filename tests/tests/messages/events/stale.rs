//! Entries of a completion queue that is gone.

use e810::{Notify, SendFlags};
use e810_hal::Ns;
use e810_sim::Sim;
use e810_tests::traffic::{Pair, Setup};

/// An event waits in the event queue when its completion queue is destroyed: it is
/// told to nobody, not to the queue that has the number then either, whether it is
/// scrubbed or met.
#[test]
fn an_entry_of_a_queue_that_is_gone_is_not_delivered() {
    for scrubbed in [false, true] {
        let sim = Sim::builder().functions(2).seed(60).build();
        let setup = Setup {
            separate_cqs: true,
            ..Setup::default()
        };
        let mut pair = Pair::simulated(&sim, setup);
        pair.sides.iter_mut().for_each(|side| side.polling = false);
        pair.sides[1].progress();
        assert!(!pair.sides[1].cqs[1].arm(Notify::Any));
        pair.message(SendFlags::empty());
        sim.run(Ns::from_ms(1));
        let side = &mut pair.sides[1];
        let qp = side.qps.remove(0);
        side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
        let old = side.cqs.remove(1);
        let (number, key) = (old.number(), old.key());
        side.control.destroy_cq(old).map_err(|(_, e)| e).unwrap();
        if scrubbed {
            let found: u32 = side.events.iter_mut().map(|part| part.scrub(key)).sum();
            assert_eq!(found, 1);
        }
        let mut new = loop {
            let cq = side.control.create_cq(64, 1).unwrap();
            if cq.number() == number {
                break cq;
            }
            side.control.destroy_cq(cq).map_err(|(_, e)| e).unwrap();
        };
        assert!(!new.arm(Notify::Any));
        let polled = side.progress();
        assert_eq!((polled.events, polled.skipped), (0, 1), "{scrubbed}");
        assert!(!new.take_event());
        side.cqs.push(new);
        side.add_qp();
        pair.finish(&sim);
    }
}
