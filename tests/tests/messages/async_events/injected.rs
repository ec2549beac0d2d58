//! Events that the function could report and that nothing a program or a peer
//! does leads to: the simulated device is told to.

use e810::{AsyncEvent, QpState, WcStatus};
use e810_ceq::ae::{self, QpEvent};
use e810_ceq::aeqe::{Aeqe, Object};
use e810_sim::pe::{Breakage, Subject};
use e810_tests::traffic::verbs::datagrams;
use e810_types::WorkQueue;

use crate::async_events::A;
use crate::async_events::stage::{Failure, Stage};
use crate::async_events::table::rows;

rows! { INJECTED, injected, Injected:
    0x0380 ROCE_EMPTY_MCG, group_without_members, "a packet for a group without members; no source says which queue pair the event names";
    0x0381 ROCE_BAD_MC_IP_ADDR, address_of_no_group, "a packet whose address is not its group's; no source says which queue pair the event names";
    0x0403 STALE_ARP_ENTRY, stale_address, "an address that is out of date; this driver's entries are permanent";
    0x050C LLP_DOUBT_REACHABILITY, path_in_doubt, "a path in doubt; no source says after how many retries";
    0x0520 RESOURCE_EXHAUSTION, resource_that_is_used_up, "a resource of the engine that is used up";
    0x0701 LCE_FUNCTION_CATASTROPHIC, function_that_failed, "a broken context of the function";
    0x0702 LCE_CQ_CATASTROPHIC, completion_queue_that_failed, "a broken context of a CQ";
    0x0703 REMOTE_QP_CATASTROPHIC, queue_pair_of_the_peer_that_failed, "a peer that says its queue pair is broken";
    0x0705 RCE_QP_CATASTROPHIC, receiving_side_that_failed, "a broken context, found by the receiving side";
    0x0B0B ADAPTER_CATASTROPHIC, card_that_failed, "a broken card";
}

/// Sources (control-path 7.4).
const NONE: u8 = 0x0;
const RECEIVE_QUEUE: u8 = 0x3;
const SEND_QUEUE: u8 = 0x7;
const COMPLETION_QUEUE: u8 = 0xE;

fn inject(stage: &Stage, code: u16, source: u8, subject: Subject) {
    let breakage = Breakage::Event {
        code,
        source,
        subject,
        wqe_index: 8,
    };
    stage.sim.break_down(0, breakage);
}

/// A's queue pair, with something outstanding on both queues, is said to have
/// failed.
fn queue_pair_fails(
    mut stage: Stage,
    (code, source): (u16, u8),
    blamed: Option<WorkQueue>,
    [send, receive]: [WcStatus; 2],
) -> AsyncEvent {
    let incoming = stage.sge(A, 64);
    stage.receive(A, incoming);
    stage.receive(A, incoming);
    // The peer has no receive; datagrams do not wait for one.
    let is_connected = stage.pair.setup().qp_type == e810::QpType::Rc;
    if is_connected {
        stage.send(A);
        stage.send(A);
    }
    let number = stage.pair.number(A);
    inject(&stage, code, source, Subject::Qp(number));
    let rest = WcStatus::WrFlushErr;
    let sends = [send, rest];
    let event = stage.fails(&Failure {
        at: A,
        blamed,
        event: QpEvent::Fatal,
        sends: if is_connected { &sends } else { &[] },
        receives: &[receive, rest],
    });
    let index = (blamed == Some(WorkQueue::Recv)).then_some(8);
    assert_eq!(event.receive, index);
    stage.end();
    event
}

const FLUSHED: WcStatus = WcStatus::WrFlushErr;

fn group_without_members() -> AsyncEvent {
    let stage = Stage::new(datagrams::setup());
    // The source is not heeded: nobody is blamed.
    queue_pair_fails(stage, (0x0380, RECEIVE_QUEUE), None, [FLUSHED; 2])
}

fn address_of_no_group() -> AsyncEvent {
    let stage = Stage::new(datagrams::setup());
    queue_pair_fails(stage, (0x0381, NONE), None, [FLUSHED; 2])
}

fn stale_address() -> AsyncEvent {
    let stage = Stage::new(e810_tests::traffic::Setup::default());
    let blamed = Some(WorkQueue::Send);
    queue_pair_fails(stage, (0x0403, SEND_QUEUE), blamed, [FLUSHED; 2])
}

fn queue_pair_of_the_peer_that_failed() -> AsyncEvent {
    let stage = Stage::new(e810_tests::traffic::Setup::default());
    let statuses = [WcStatus::FatalErr, FLUSHED];
    let blamed = Some(WorkQueue::Send);
    queue_pair_fails(stage, (0x0703, SEND_QUEUE), blamed, statuses)
}

fn receiving_side_that_failed() -> AsyncEvent {
    let stage = Stage::new(e810_tests::traffic::Setup::default());
    let statuses = [FLUSHED, WcStatus::FatalErr];
    let blamed = Some(WorkQueue::Recv);
    queue_pair_fails(stage, (0x0705, RECEIVE_QUEUE), blamed, statuses)
}

/// Told, and nothing follows: queue pairs go on.
fn reported(
    code: u16,
    source: u8,
    subject: impl FnOnce(&mut Stage) -> (Subject, Object),
) -> AsyncEvent {
    let mut stage = Stage::connected();
    let (subject, object) = subject(&mut stage);
    inject(&stage, code, source, subject);
    let event = stage.reported_for(0, object);
    assert_eq!((event.blamed, event.receive), (None, None));
    assert_eq!(event.qp_event(), None);
    assert_eq!(stage.pair.sides[0].qps[0].state(), QpState::Rts);
    assert_eq!(stage.pair.sides[0].take(), []);
    stage.end();
    event
}

fn path_in_doubt() -> AsyncEvent {
    reported(0x050C, NONE, |stage| {
        let number = stage.pair.number(A);
        (Subject::Qp(number), Object::Qp(number))
    })
}

fn resource_that_is_used_up() -> AsyncEvent {
    reported(0x0520, NONE, |_| (Subject::Function, Object::Function))
}

fn function_that_failed() -> AsyncEvent {
    reported(0x0701, NONE, |_| (Subject::Function, Object::Function))
}

fn card_that_failed() -> AsyncEvent {
    reported(0x0B0B, NONE, |_| (Subject::Function, Object::Function))
}

fn completion_queue_that_failed() -> AsyncEvent {
    let mut stage = Stage::connected();
    let number = stage.pair.sides[0].cqs[0].number();
    inject(&stage, 0x0702, COMPLETION_QUEUE, Subject::Cq(number));
    let event = stage.reported_for(0, Object::Cq(number));
    assert_eq!((event.blamed, event.receive), (None, None));
    assert_eq!(event.qp_event(), None);
    let side = &stage.pair.sides[0];
    assert!(side.cqs[0].has_failed());
    assert_eq!(side.qps[0].state(), QpState::Rts);
    stage.end();
    event
}

/// A queue pair is found by its number, whatever queue the event names as its source
/// and whether or not it carries the queue pair's context; a completion queue
/// whether its context stands shifted or not.
#[test]
fn objects_are_found_by_their_numbers() {
    use e810_sim::variation::{CqEventContext, QpEventContext};
    for (of_qp, of_cq) in [
        (QpEventContext::Whole, CqEventContext::Shifted),
        (QpEventContext::Zero, CqEventContext::Whole),
    ] {
        let stage = || {
            Stage::configured(e810_tests::traffic::Setup::default(), move |_, config| {
                config.variation.qp_event_context = of_qp;
                config.variation.cq_event_context = of_cq;
            })
        };
        for (source, blamed) in [
            (COMPLETION_QUEUE, None),
            (SEND_QUEUE, Some(WorkQueue::Send)),
        ] {
            let statuses = [blamed.map_or(FLUSHED, |_| WcStatus::FatalErr), FLUSHED];
            queue_pair_fails(stage(), (0x0703, source), blamed, statuses);
        }
        let mut stage = stage();
        let number = stage.pair.sides[0].cqs[0].number();
        inject(&stage, 0x0203, COMPLETION_QUEUE, Subject::Cq(number));
        stage.reported_for(0, Object::Cq(number));
        assert!(stage.pair.sides[0].cqs[0].has_failed());
        stage.end();
    }
}

/// Whatever a device says of objects that are not there, or of the function, is
/// told or counted, and does no harm: also what cannot happen here.
#[test]
fn every_code_with_every_source_does_no_harm() {
    let mut stage = Stage::connected();
    // What the bring-up has left.
    stage.pair.sides[0].progress();
    let codes = ae::all().map(|info| info.code.0).chain([0, 0x0ABC, 0xFFF]);
    for code in codes {
        for source in 0..16 {
            inject(&stage, code, source, Subject::Function);
            let side = &mut stage.pair.sides[0];
            let polled = side.progress();
            let reported: Vec<_> = side.reported.drain(..).collect();
            // Bits [45:34] and [53:50] of the entry.
            let word = u64::from(code) << 34 | u64::from(source) << 50;
            match Aeqe::decode([0, word]).object() {
                Object::Qp(_) | Object::Cq(_) => {
                    assert_eq!(
                        (polled.events, polled.skipped),
                        (0, 1),
                        "{code:#x} {source}"
                    );
                    assert_eq!(reported, []);
                }
                object @ (Object::Function | Object::Srq(_)) => {
                    assert_eq!(
                        (polled.events, polled.skipped),
                        (1, 0),
                        "{code:#x} {source}"
                    );
                    let [event] = reported[..] else {
                        panic!("{reported:?}");
                    };
                    assert_eq!((event.object, event.qp_event()), (object, None));
                    assert!(!event.to_string().contains('\n'), "{event}");
                }
            }
        }
    }
    stage.end();
}
