//! Order of events, virtual time and delivery of frames.

use super::*;

use e810_hal::regs::PFGEN_CTRL;

use crate::Sim;

/// A broadcast without content.
const HELLO: [u8; 60] = {
    let mut frame = [0; 60];
    let mut i = 0;
    while i < 6 {
        frame[i] = 0xff;
        i += 1;
    }
    frame
};

fn received(sim: &Sim) -> Vec<u64> {
    (0..sim.functions())
        .map(|pf| sim.stats(pf).frames_received)
        .collect()
}

fn with_machine<R>(sim: &Sim, f: impl FnOnce(&mut Machine) -> R) -> R {
    sim.with_machine(f)
}

#[test]
fn frames_arrive_when_their_time_has_come_and_not_in_a_reset() {
    let sim = Sim::builder().functions(3).build();
    with_machine(&sim, |machine| machine.link.send(0, 0, HELLO.to_vec()));
    sim.run(Ns(999));
    assert_eq!(received(&sim), [0, 0, 0]);
    sim.run(Ns(1));
    assert_eq!(received(&sim), [0, 1, 1]);
    PFGEN_CTRL.set(&sim.function(2), 1);
    with_machine(&sim, |machine| {
        machine.link.send(machine.now, 0, HELLO.to_vec());
    });
    sim.run(Ns(2_000));
    assert_eq!(received(&sim), [0, 2, 1]);
}

#[test]
fn what_an_engine_sends_goes_on_the_wire() {
    let sim = Sim::builder().functions(2).build();
    with_machine(&sim, |machine| {
        machine.functions[1].state.outbox.push(HELLO.to_vec());
        machine.functions[1].runnable = true;
    });
    sim.run(Ns(10_000));
    assert_eq!(received(&sim), [1, 0]);
    assert_eq!(sim.link().sent, 1);
}

/// rdma_rxe sends through the queues of the same card; its frames are not checked as this engine's
/// are.
#[test]
fn frames_of_lan_queues_are_not_an_engines() {
    let sim = Sim::builder().functions(2).build();
    let arrives_as_engines = |is_engines: bool| {
        with_machine(&sim, |machine| {
            let state = &mut machine.functions[1].state;
            match is_engines {
                true => &mut state.outbox,
                false => &mut state.lan_outbox,
            }
            .push(HELLO.to_vec());
            machine.functions[1].runnable = true;
        });
        sim.run(Ns(10_000));
        with_machine(&sim, |machine| machine.functions[0].state.sent_here)
    };
    assert!(arrives_as_engines(true));
    assert!(!arrives_as_engines(false));
    assert_eq!(received(&sim), [2, 0]);
}

#[test]
fn a_waiting_world_takes_longer_and_longer_turns() {
    let sim = Sim::builder().build();
    let turn = || {
        let before = sim.now();
        with_machine(&sim, Machine::relax);
        (sim.now() - before).0
    };
    let turns: Vec<u64> = (0..10).map(|_| turn()).collect();
    assert_eq!(turns[..4], [1_000, 2_000, 4_000, 8_000]);
    assert_eq!(turns[9], 100_000);
    // A write means that something may happen soon.
    PFGEN_CTRL.set(&sim.function(0), 0);
    assert_eq!(turn(), 1_000);
}

#[test]
fn an_event_ends_the_turn_of_a_waiting_world() {
    let sim = Sim::builder().functions(2).build();
    with_machine(&sim, |machine| machine.link.send(0, 0, HELLO.to_vec()));
    with_machine(&sim, |machine| machine.link.send(400, 0, HELLO.to_vec()));
    for due in [1_000, 1_400] {
        // The engine runs a step after each frame, which is an event too.
        while sim.now() < Ns(due) {
            with_machine(&sim, Machine::relax);
        }
        assert_eq!(sim.now(), Ns(due));
    }
}

#[test]
fn the_order_of_what_is_ready_is_the_seeds() {
    let order = |seed| {
        let sim = Sim::builder().functions(8).seed(seed).build();
        with_machine(&sim, |machine| {
            for function in &mut machine.functions {
                function.runnable = true;
            }
            let mut order = Vec::new();
            while order.len() < 8 {
                assert!(machine.step());
                let done =
                    |index: &usize| !machine.functions[*index].runnable && !order.contains(index);
                let index = (0..8).find(done).unwrap();
                order.push(index);
            }
            order
        })
    };
    assert_eq!(order(1), order(1));
    assert!((2..8).any(|seed| order(seed) != order(1)));
}
