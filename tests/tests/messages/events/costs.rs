//! What an interrupt costs in register accesses.

use e810::{Config, Lan, MacAddr, Notify, SendFlags, VsiId, Wc, bring_up};
use e810_hal::Ns;
use e810_sim::{Sim, SimPlatform};
use e810_tests::traffic::{Pair, Setup, Watched};

/// Sends messages to the second side, and takes the sender's completions.
fn send(sim: &Sim, pair: &mut Pair<Watched<SimPlatform>>, count: usize) {
    for _ in 0..count {
        pair.message(SendFlags::empty());
    }
    sim.run(Ns::from_ms(1));
    while pair.sides[0].cqs[0].poll(&mut [Wc::default(); 8]) > 0 {}
}

/// On a card that loses events which come while the write is on its way, a register is read behind it.
#[test]
fn with_the_quirk_a_vector_is_read_back() {
    let sim = Sim::builder().functions(2).seed(50).build();
    for late_events_are_lost in [false, true] {
        let nic = sim.function(0);
        let mut config = Config::new(Lan {
            vsi: VsiId::new(nic.vsi()).expect("a VSI"),
            mac: MacAddr(nic.mac()),
            mtu: 1500,
        });
        config.quirks.late_events_are_lost = late_events_are_lost;
        let up = bring_up(nic, &config, &mut |_| {}).unwrap();
        let (control, mut events) = up.split();
        let part = events.first_mut().unwrap();
        let _ = part.on_vector(&mut |_| {});
        let before = sim.stats(0).register_reads;
        let _ = part.on_vector(&mut |_| {});
        let reads = sim.stats(0).register_reads - before;
        assert_eq!(reads, u64::from(late_events_are_lost));
        control.shutdown(events).map_err(|e| e.error).unwrap();
    }
}

/// One write enables the vector again; each queue that is served takes one to
/// acknowledge its event, and one more to be armed again. Nothing is read.
#[test]
fn an_interrupt_writes_one_register_and_two_for_each_queue() {
    let sim = Sim::builder().functions(2).seed(50).build();
    let mut pair = Pair::simulated(&sim, Setup::default());
    pair.sides.iter_mut().for_each(|side| side.polling = false);
    let accesses = |sim: &Sim| {
        let stats = sim.stats(1);
        (stats.register_reads, stats.register_writes)
    };
    // What the bring-up left: an event of the CQP's own queue.
    for part in &mut pair.sides[1].events {
        let _ = part.on_vector(&mut |_| {});
    }
    let _ = sim.take_interrupts(1);
    for count in 1..=3 {
        assert!(!pair.sides[1].cqs[0].arm(Notify::Any));
        send(&sim, &mut pair, count);
        let fired = sim.take_interrupts(1);
        let [vector] = fired[..] else {
            panic!("{fired:?}");
        };
        let before = accesses(&sim);
        let side = &mut pair.sides[1];
        let parts = side.events.iter_mut();
        let mut reported = 0;
        for part in parts.filter(|part| part.vector() == vector) {
            let polled = part.on_vector(&mut |_| reported += 1);
            assert_eq!((polled.events, polled.surplus, polled.more), (1, 0, false));
        }
        // GLINT_DYN_CTL and PFPE_CQACK.
        let after = accesses(&sim);
        assert_eq!((after.0 - before.0, after.1 - before.1), (0, 2));
        assert_eq!(reported, 1);
        let cq = &mut side.cqs[0];
        assert!(cq.take_event());
        assert_eq!(cq.poll(&mut [Wc::default(); 8]), count);
        let before = accesses(&sim);
        assert!(!cq.arm(Notify::Any) && !cq.arm(Notify::Solicited));
        // PFPE_CQARM, once for both requests.
        let after = accesses(&sim);
        assert_eq!((after.0 - before.0, after.1 - before.1), (0, 1));
        // What it was armed for, so that the next turn begins as this one.
        send(&sim, &mut pair, 1);
        let side = &mut pair.sides[1];
        for part in &mut side.events {
            let _ = part.on_vector(&mut |_| {});
        }
        let _ = sim.take_interrupts(1);
        assert!(side.cqs[0].take_event());
        assert_eq!(side.cqs[0].poll(&mut [Wc::default(); 8]), 1);
    }
    pair.finish(&sim);
}
