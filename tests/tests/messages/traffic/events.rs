//! Completion events that were asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use e810::{Data, Event, Notify, Op, Platform, SendFlags, SendWr};
use e810_hal::Ns;
use e810_hal::regs::PFPE_CQACK;
use e810_sim::Sim;
use e810_sim::pe::{Breakage, Subject};
use e810_tests::traffic::{Pair, Setup};

use crate::traffic::exchange::{A, sim};

/// Whether an event of the second side's CQ came since the last call.
fn reported(sim: &Sim, pair: &mut Pair<impl Platform>) -> bool {
    sim.run(Ns::from_ms(1));
    pair.sides[1].progress();
    pair.sides[1].cqs[0].take_event()
}

fn send(pair: &mut Pair<impl Platform>, flags: SendFlags) {
    let here = pair.sides[0].sge(0, 64);
    let op = Op::Send {
        data: Data::Sges(&[here]),
        imm: None,
    };
    post(pair, op, flags);
}

/// Posts a request that uses up a receive, and waits for its completion.
fn post(pair: &mut Pair<impl Platform>, op: Op<'_>, flags: SendFlags) {
    let incoming = pair.sides[1].incoming();
    let there = pair.sides[1].sge(incoming, 64);
    pair.sides[1].post_recv(0, 7, &[there]).unwrap();
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
        assert!(!pair.sides[1].cqs[0].arm(notify));
        send(&mut pair, SendFlags::SOLICITED);
        assert!(reported(&sim, &mut pair), "{notify:?}");
        assert!(!reported(&sim, &mut pair), "{notify:?}: told once");
        // Not asked for again.
        pair.sides[1].polling = true;
        pair.completions(1, 1);
        send(&mut pair, SendFlags::SOLICITED);
        pair.completions(1, 1);
        assert!(!reported(&sim, &mut pair), "{notify:?}: not asked for");
        pair.finish(&sim);
    }
}

/// Every operation that completes a receive can ask for the peer's event.
#[test]
fn every_operation_with_a_receive_can_solicit() {
    let sim = sim(83);
    let setup = Setup {
        fast_register: true,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let incoming = pair.sides[1].incoming();
    let remote = pair.remote(A, incoming);
    let here = [pair.sides[0].sge(0, 64)];
    let data = Data::Sges(&here);
    for solicited in [true, false] {
        // A key for the invalidation.
        let side = &mut pair.sides[1];
        let mut fast = side.control.alloc_fast_mr(&side.pd, 1).unwrap();
        let window = side.buffer.bytes().window(0, 64).unwrap();
        let access = e810::AccessFlags::REMOTE_READ;
        let request = side.control.map_fast_mr(&mut fast, window, access).unwrap();
        let register = SendWr {
            wr_id: 2,
            op: Op::FastRegister(&request),
            flags: SendFlags::SIGNALED,
        };
        side.post_send(0, &[register]).unwrap();
        pair.completions(1, 1);
        let imm = Some(5);
        let rkey = fast.key();
        for op in [
            Op::Send { data, imm },
            Op::SendInv { data, rkey },
            Op::Write { data, remote, imm },
        ] {
            assert!(!pair.sides[1].cqs[0].arm(Notify::Solicited));
            let flags = match solicited {
                true => SendFlags::SOLICITED,
                false => SendFlags::empty(),
            };
            post(&mut pair, op, flags);
            pair.completions(1, 1);
            assert_eq!(reported(&sim, &mut pair), solicited, "{}", op.name());
        }
        let side = &mut pair.sides[1];
        side.control.free_fast_mr(fast).map_err(|(_, e)| e).unwrap();
    }
    pair.finish(&sim);
}

/// Armed for solicited completions, a plain one goes by and the next solicited
/// one is told.
#[test]
fn a_plain_send_does_not_use_up_the_request() {
    let sim = sim(82);
    let mut pair = Pair::simulated(&sim, Setup::default());
    assert!(!pair.sides[1].cqs[0].arm(Notify::Solicited));
    send(&mut pair, SendFlags::empty());
    pair.completions(1, 1);
    send(&mut pair, SendFlags::SOLICITED);
    pair.completions(1, 1);
    assert!(reported(&sim, &mut pair));
    pair.finish(&sim);
}

/// The card does not remember where a solicited completion was: one that was
/// polled before the request counts, if any completion waits.
#[test]
fn a_solicited_completion_before_the_request_counts_wherever_it_was() {
    let sim = sim(84);
    let mut pair = Pair::simulated(&sim, Setup::default());
    send(&mut pair, SendFlags::SOLICITED);
    pair.completions(1, 1);
    pair.sides[1].polling = false;
    send(&mut pair, SendFlags::empty());
    assert!(pair.sides[1].cqs[0].arm(Notify::Solicited), "one waits");
    assert!(reported(&sim, &mut pair));
    pair.sides[1].polling = true;
    pair.completions(1, 1);
    // Nothing waits: neither of them counts any more.
    assert!(!pair.sides[1].cqs[0].arm(Notify::Solicited));
    assert!(!reported(&sim, &mut pair));
    pair.finish(&sim);
}

/// Without a solicited one since the last event, what waits is none.
#[test]
fn a_plain_completion_that_waits_is_no_event_for_a_solicited_request() {
    let sim = sim(85);
    let mut pair = Pair::simulated(&sim, Setup::default());
    pair.sides[1].polling = false;
    send(&mut pair, SendFlags::empty());
    assert!(pair.sides[1].cqs[0].arm(Notify::Solicited), "one waits");
    assert!(!reported(&sim, &mut pair));
    send(&mut pair, SendFlags::SOLICITED);
    assert!(reported(&sim, &mut pair));
    pair.sides[1].polling = true;
    pair.completions(1, 2);
    pair.finish(&sim);
}

/// A vector that serves both queues: one interrupt, completions first.
#[test]
fn a_shared_vector_brings_completions_before_asynchronous_events() {
    let sim = Sim::builder().functions(2).seed(86).vectors(1).build();
    let mut pair = Pair::simulated(&sim, Setup::default());
    pair.sides[1].polling = false;
    let side = &mut pair.sides[1];
    let events = side.events.first_mut().unwrap();
    let (vector, cq) = (events.vector(), side.cqs[0].number());
    // What the bring-up caused is past.
    while events.on_vector(&mut |_| {}).more {}
    let nic = sim.function(1);
    let before = nic.interrupt_count(vector);
    let broken = Breakage::Event {
        code: 0x0520,
        source: 0,
        subject: Subject::Function,
        wqe_index: 0,
    };
    // The asynchronous event comes first, and is told last.
    sim.break_down(1, broken);
    assert!(!side.cqs[0].arm(Notify::Any));
    let incoming = side.incoming();
    let there = side.sge(incoming, 8);
    side.post_recv(0, 7, &[there]).unwrap();
    let request = SendWr {
        wr_id: 1,
        op: Op::Send {
            data: Data::Inline(&[b"an event"]),
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    };
    pair.sides[0].post_send(0, &[request]).unwrap();
    sim.run(Ns::from_ms(1));
    let side = &mut pair.sides[1];
    assert_eq!(nic.interrupt_count(vector), before + 1);
    let mut reported = Vec::new();
    side.events[0].on_vector(&mut |event| reported.push(event));
    let is_async = |event: &Event| matches!(event, Event::Async(_));
    assert_eq!(
        reported.first(),
        Some(&Event::Completion { cq }),
        "{reported:?}"
    );
    assert_eq!(reported.iter().filter(|event| is_async(event)).count(), 1);
    assert!(reported.last().is_some_and(is_async), "{reported:?}");
    side.polling = true;
    pair.completions(0, 1);
    pair.completions(1, 1);
    pair.finish(&sim);
}

/// So the next one may be written while its handler runs.
#[test]
fn an_event_is_acknowledged_before_it_is_delivered() {
    let sim = sim(87);
    let mut pair = Pair::simulated(&sim, Setup::default());
    pair.sides[1].polling = false;
    send(&mut pair, SendFlags::empty());
    // What the bring-up caused is past.
    pair.sides[1].progress();
    let acknowledged = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&acknowledged);
    let side = &mut pair.sides[1];
    side.platform.before(PFPE_CQACK.off(), move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    for round in 1..3 {
        // Each is raised at once: nothing is polled.
        assert!(side.cqs[0].arm(Notify::Any));
        sim.run(Ns::from_ms(1));
        let mut reported = Vec::new();
        for part in &mut side.events {
            part.poll(&mut |event| reported.push((event, acknowledged.load(Ordering::Relaxed))));
        }
        let cq = side.cqs[0].number();
        assert_eq!(reported, [(Event::Completion { cq }, round)]);
        assert!(side.cqs[0].take_event());
    }
    side.platform.before_nothing();
    side.polling = true;
    pair.completions(1, 1);
    pair.finish(&sim);
}
