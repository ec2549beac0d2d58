//! Completion events that were asked for.

use e810::{Data, Notify, Op, SendFlags, SendWr};
use e810_hal::Ns;
use e810_sim::Sim;
use e810_tests::traffic::{Pair, Setup};

use crate::exchange::{A, sim};

/// Whether an event of the second side's CQ came since the last call.
fn told(sim: &Sim, pair: &mut Pair<impl e810::Platform>) -> bool {
    sim.run(Ns::from_ms(1));
    pair.sides[1].attend();
    pair.sides[1].cqs[0].take_event()
}

fn send(pair: &mut Pair<impl e810::Platform>, flags: SendFlags) {
    let incoming = pair.sides[1].incoming();
    let there = pair.sides[1].sge(incoming, 64);
    pair.sides[1].post_recv(0, 7, &[there]).unwrap();
    let here = pair.sides[0].sge(0, 64);
    let op = Op::Send {
        data: Data::Sges(&[here]),
        imm: None,
    };
    let flags = flags | SendFlags::SIGNALED;
    let request = SendWr {
        wr_id: 1,
        op,
        flags,
    };
    pair.sides[A.side].post_send(A.qp, &[request]).unwrap();
    pair.completions(0, 1);
}

#[test]
fn a_solicited_send_raises_the_event_that_was_asked_for() {
    for (seed, notify) in (80..).zip([Notify::Solicited, Notify::Any]) {
        let sim = sim(seed);
        let mut pair = Pair::simulated(&sim, Setup::default());
        // Completions stay where they are: only events are looked at.
        pair.sides[1].polling = false;
        pair.sides[1].cqs[0].arm(notify);
        send(&mut pair, SendFlags::SOLICITED);
        assert!(told(&sim, &mut pair), "{notify:?}");
        assert!(!told(&sim, &mut pair), "{notify:?}: told once");
        // Not asked for again.
        pair.sides[1].polling = true;
        pair.completions(1, 1);
        send(&mut pair, SendFlags::SOLICITED);
        pair.completions(1, 1);
        assert!(!told(&sim, &mut pair), "{notify:?}: not asked for");
        pair.finish(&sim);
    }
}

/// Armed for solicited completions, a plain one goes by and the next solicited
/// one is told.
#[test]
fn a_plain_send_does_not_use_up_the_request() {
    let sim = sim(82);
    let mut pair = Pair::simulated(&sim, Setup::default());
    pair.sides[1].cqs[0].arm(Notify::Solicited);
    send(&mut pair, SendFlags::empty());
    pair.completions(1, 1);
    send(&mut pair, SendFlags::SOLICITED);
    pair.completions(1, 1);
    assert!(told(&sim, &mut pair));
    pair.finish(&sim);
}
