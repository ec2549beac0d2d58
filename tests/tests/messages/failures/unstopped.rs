//! Queue pairs that the device does not move to ERROR. It may still write into the memory of their
//! receives, so nothing of theirs is completed by software before it has answered.

use e810::{QpAttr, QpState, WcStatus};
use e810_hal::Ns;
use e810_hal::regs::PFPE_CQPDB;
use e810_sim::Sim;
use e810_sim::pe::CqpErrors;
use e810_tests::traffic::{Kind, Pair, Setup, Side, Transfer, Watched};

use crate::failures::requests::{A, B, FLUSH, send, sim};
use crate::failures::stopping::fail;

const MODIFY_QP: u8 = 0x01;
const TOO_MANY_RETRIES: u16 = 0x050A;

type World = Pair<Watched<e810_sim::SimPlatform>>;

/// MODIFY_QP is refused, with a code that no driver passes over.
fn refuse(sim: &Sim) {
    sim.configure_engine(0, |config| {
        config.cqp_errors = CqpErrors::Answer {
            opcode: MODIFY_QP,
            major: 0xFFFF,
            minor: 0x80FF,
        };
    });
}

fn allow(sim: &Sim) {
    sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::None);
}

/// Two connected sides, the first with two receives.
fn with_receives(sim: &Sim) -> World {
    let mut pair = Pair::simulated(sim, Setup::default());
    let side = &mut pair.sides[0];
    let sge = side.sge(side.incoming(), 64);
    for id in [7, 8] {
        side.post_recv(0, id, &[sge]).unwrap();
    }
    pair.during(Ns::from_ms(1));
    pair
}

fn bytes(side: &Side<Watched<e810_sim::SimPlatform>>) -> [u8; 64] {
    let mut bytes = [0; 64];
    let memory = side.buffer.bytes();
    memory.read(side.incoming(), &mut bytes).unwrap();
    bytes
}

/// What the peer sends arrives, and completes the receive that it went into.
fn the_peer_writes(pair: &mut World) {
    let mark = [0xA5; 64];
    assert_ne!(bytes(&pair.sides[0]), mark);
    pair.sides[1].buffer.write(0, &mark);
    let from = pair.sides[1].sge(0, 64);
    pair.sides[1].post_send(0, &[send(1, &[from])]).unwrap();
    pair.during(Ns::from_ms(5));
    assert_eq!(bytes(&pair.sides[0]), mark);
    let done = pair.sides[0].take();
    let received: Vec<_> = done.iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(received, [(7, WcStatus::Success)]);
    pair.sides[1].take();
}

/// The rest is flushed, and its memory is the program's.
fn the_rest_is_flushed(pair: &mut World) {
    pair.during(Ns::from_ms(60));
    let done = pair.sides[0].take();
    let flushed: Vec<_> = done.iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(flushed, [(8, FLUSH)]);
    assert_eq!(pair.sides[0].control.progress().unwrap().unstopped, 0);
    let before = bytes(&pair.sides[0]);
    pair.sides[1].buffer.write(0, &[0x5A; 64]);
    let from = pair.sides[1].sge(0, 64);
    pair.sides[1].post_send(0, &[send(2, &[from])]).unwrap();
    pair.during(Ns::from_ms(60));
    assert_eq!(bytes(&pair.sides[0]), before);
    for side in &mut pair.sides {
        side.take();
        side.failed.clear();
        side.reported.clear();
    }
}

fn end(mut pair: World, sim: &Sim) {
    for end in [A, B] {
        pair.renew(end);
    }
    for end in [A, B] {
        pair.connect(end);
    }
    pair.transfer(A, &Transfer::new(Kind::Send, 3000));
    pair.finish(sim);
}

#[test]
fn a_refusal_completes_nothing_and_is_tried_again() {
    let sim = sim(30);
    let mut pair = with_receives(&sim);
    refuse(&sim);
    let side = &mut pair.sides[0];
    let refused = side
        .control
        .modify_qp(&mut side.qps[0], &QpAttr::to_error());
    assert!(refused.is_err());
    assert_eq!(side.qps[0].state(), QpState::Err);
    pair.during(Ns::from_ms(30));
    assert_eq!(pair.sides[0].take(), []);
    // Told by each call that heard of it.
    assert!(!pair.sides[0].failed.is_empty());
    the_peer_writes(&mut pair);
    allow(&sim);
    the_rest_is_flushed(&mut pair);
    end(pair, &sim);
}

/// After eight refusals the device is asked no more: another change of state asks it again.
#[test]
fn a_device_that_refuses_for_good_is_asked_by_the_program_again() {
    let sim = sim(31);
    let mut pair = with_receives(&sim);
    refuse(&sim);
    let side = &mut pair.sides[0];
    let to_error = QpAttr::to_error();
    assert!(side.control.modify_qp(&mut side.qps[0], &to_error).is_err());
    pair.during(Ns::from_ms(400));
    let side = &mut pair.sides[0];
    let progress = side.control.progress().unwrap();
    assert_eq!((progress.unfinished, progress.unstopped), (0, 1));
    assert_eq!(side.failed.len(), 7, "the first was the program's own");
    let commands = side.control.commands();
    pair.during(Ns::from_ms(100));
    assert_eq!(pair.sides[0].control.commands(), commands);
    the_peer_writes(&mut pair);
    allow(&sim);
    let side = &mut pair.sides[0];
    side.control.modify_qp(&mut side.qps[0], &to_error).unwrap();
    the_rest_is_flushed(&mut pair);
    end(pair, &sim);
}

/// What is not completed ends with the queue pair, which counts it.
#[test]
fn a_destruction_drops_what_was_not_completed() {
    let sim = sim(32);
    let mut pair = with_receives(&sim);
    refuse(&sim);
    let side = &mut pair.sides[0];
    let to_error = QpAttr::to_error();
    assert!(side.control.modify_qp(&mut side.qps[0], &to_error).is_err());
    pair.during(Ns::from_ms(400));
    let side = &mut pair.sides[0];
    let qp = side.qps.remove(0);
    let dropped = side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
    assert_eq!((dropped.sends, dropped.receives), (0, 2));
    assert_eq!(side.control.progress().unwrap().unstopped, 0);
    allow(&sim);
    side.add_qp();
    pair.during(Ns::from_ms(60));
    assert_eq!(pair.sides[0].take(), []);
    pair.sides[0].failed.clear();
    // It could not be stopped.
    let findings = sim.take_findings();
    assert!(findings.iter().all(|one| one.kind == "qp-destroy-state"));
    pair.renew(B);
    for end in [A, B] {
        pair.connect(end);
    }
    pair.finish(&sim);
}

/// The same where the device reports the failure: it is asked to flush all the same, as existing
/// drivers do, and what it flushes completes.
#[test]
fn a_failure_that_an_event_reports_is_tried_again() {
    let sim = sim(33);
    let mut pair = with_receives(&sim);
    refuse(&sim);
    fail(&sim, 0, &pair.sides[0], 0, TOO_MANY_RETRIES);
    pair.during(Ns::from_ms(400));
    assert_eq!(pair.sides[0].qps[0].state(), QpState::Err);
    assert_eq!(pair.sides[0].control.progress().unwrap().unstopped, 1);
    assert!(!pair.sides[0].failed.is_empty());
    allow(&sim);
    let side = &mut pair.sides[0];
    let to_error = QpAttr::to_error();
    side.control.modify_qp(&mut side.qps[0], &to_error).unwrap();
    pair.during(Ns::from_ms(60));
    let done = pair.sides[0].take();
    assert_eq!(done.len(), 2, "{done:?}");
    assert!(done.iter().all(|wc| wc.status != WcStatus::Success));
    for side in &mut pair.sides {
        side.take();
        side.failed.clear();
        side.reported.clear();
    }
    // Which this one had not stopped.
    let findings = sim.take_findings();
    assert!(findings.iter().all(|one| one.kind == "flush-state"));
    end(pair, &sim);
}

/// The command is answered a minute later.
#[test]
fn an_answer_that_comes_late_completes_the_rest() {
    const MINUTE: u64 = 60_000_000_000;
    let sim = sim(34);
    let mut pair = with_receives(&sim);
    let world = sim.clone();
    pair.sides[0].platform.before(PFPE_CQPDB.off(), move || {
        world.configure_engine(0, |config| config.cqp_delay = (MINUTE, MINUTE));
    });
    let side = &mut pair.sides[0];
    let late = side
        .control
        .modify_qp(&mut side.qps[0], &QpAttr::to_error());
    assert!(late.is_err_and(|error| error.needs_reset()));
    pair.sides[0].platform.before_nothing();
    sim.configure_engine(0, |config| config.cqp_delay = (500, 5_000));
    pair.during(Ns::from_ms(60));
    assert_eq!(pair.sides[0].take(), []);
    the_peer_writes(&mut pair);
    // The device is found to end no command.
    sim.run(Ns::from_ms(10_000));
    pair.during(Ns::from_ms(60));
    assert_eq!(pair.sides[0].take(), []);
    let asked = pair.sides[0].control.progress().unwrap();
    assert_eq!((asked.unfinished, asked.unstopped), (0, 1));
    sim.run(Ns::from_ms(60_000));
    // The next command shows that it does again.
    let side = &mut pair.sides[0];
    side.control.gather_stats().unwrap();
    the_rest_is_flushed(&mut pair);
    end(pair, &sim);
}
