//! The commands that the device gets for a queue pair that ends: each thing once, and whatever
//! it answers.

use e810::{
    Data, Op, Path, QpAttr, QpState, QpType, Qpn, Remote, SendFlags, SendWr, Sge, WcStatus,
};
use e810_hal::Ns;
use e810_sim::pe::{Breakage, CqpErrors, Subject};
use e810_sim::variation::{ErrorRefused, NothingToFlush, ReadSink};
use e810_sim::{Sim, Variation};
use e810_tests::traffic::verbs::{datagrams, endings};
use e810_tests::traffic::{Kind, Pair, Setup, Side, Transfer, Watched};

use crate::failures::requests::{A, B, FLUSH, sim};

/// Opcodes (control-path 4.6).
const MODIFY_QP: u8 = 0x01;
const FLUSH_WQES: u8 = 0x22;

type Simulated = Side<Watched<e810_sim::SimPlatform>>;

/// A side's queue pair fails, as a card says that has nothing else wrong with it.
pub(crate) fn fail(sim: &Sim, function: u8, side: &Simulated, qp: usize, code: u16) {
    let subject = Subject::Qp(side.qps[qp].number().get());
    // The source is a send queue.
    let event = Breakage::Event {
        code,
        source: 0x5,
        subject,
        wqe_index: 0,
    };
    sim.break_down(function, event);
}

/// "Too many retries" and "datagram too long" (control-path 7.5).
const TOO_MANY_RETRIES: u16 = 0x050A;
const TOO_LONG: u16 = 0x0132;

#[test]
fn nothing_to_do_is_no_failure() {
    for nothing_to_flush in [NothingToFlush::Refused, NothingToFlush::Done] {
        for error_refused in [
            ErrorRefused::Again,
            ErrorRefused::Known,
            ErrorRefused::Always,
            ErrorRefused::Never,
        ] {
            let variation = Variation {
                nothing_to_flush,
                error_refused,
                ..Variation::default()
            };
            let builder = Sim::builder().functions(2).seed(3).variation(variation);
            let sim = builder.build();
            let mut pair = Pair::simulated(&sim, Setup::default());
            endings::with_nothing_posted(&mut pair);
            let passed: u64 = pair.sides.iter().map(|s| s.control.passed_over()).sum();
            let done = nothing_to_flush == NothingToFlush::Done;
            assert_eq!(
                passed == 0,
                done && matches!(error_refused, ErrorRefused::Again | ErrorRefused::Never),
                "{variation:?}: {passed}"
            );
            // One at work that a card fails without any reason.
            fail(&sim, 0, &pair.sides[0], 0, TOO_MANY_RETRIES);
            pair.during(Ns::from_ms(60));
            assert_eq!(pair.sides[0].qps[0].state(), QpState::Err);
            assert_eq!(pair.sides[0].failed, []);
            pair.sides[0].reported.clear();
            pair.finish(&sim);
        }
    }
}

/// The same codes of another command, and other codes of MODIFY_QP, are failures; no driver
/// looks at those of FLUSH_WQES, and software completes what it leaves.
#[test]
fn other_refusals_are_failures() {
    let answer = |opcode, minor| CqpErrors::Answer {
        opcode,
        major: 0xFFFF,
        minor,
    };
    let sim = sim(4);
    let mut pair = Pair::simulated(&sim, Setup::default());
    for end in [A, B] {
        pair.renew(end);
    }
    let [to_init, to_rtr, to_rts] = pair.steps(A);
    let side = &mut pair.sides[0];
    let refuse = |errors| sim.configure_engine(0, move |config| config.cqp_errors = errors);
    let code = |result: Result<(), e810::Error>| match result {
        Err(e810::Error::Cqp(e810_cqp::Error::Cqp { op, major, minor })) => {
            Some((op.code(), major, minor))
        }
        _ => None,
    };
    side.control.modify_qp(&mut side.qps[0], &to_init).unwrap();
    refuse(answer(MODIFY_QP, 0x8002));
    let refused = side.control.modify_qp(&mut side.qps[0], &to_rtr);
    assert_eq!(code(refused), Some((MODIFY_QP, 0xFFFF, 0x8002)));
    assert_eq!(side.qps[0].state(), QpState::Init);
    refuse(CqpErrors::None);
    for step in [to_rtr, to_rts] {
        side.control.modify_qp(&mut side.qps[0], &step).unwrap();
    }
    // Each on a queue pair of its own, which is then destroyed all the same.
    for (opcode, minor, fails) in [
        (MODIFY_QP, 0x8002, false),
        (MODIFY_QP, 0x8006, true),
        (MODIFY_QP, 0x80FF, true),
        // Existing drivers look at no answer of a flush.
        (FLUSH_WQES, 0x8006, false),
        (FLUSH_WQES, 0x8002, false),
        (FLUSH_WQES, 0x80FF, false),
    ] {
        side.add_qp();
        let mut qp = side.qps.pop().unwrap();
        side.control.modify_qp(&mut qp, &to_init).unwrap();
        refuse(answer(opcode, minor));
        // Not from INIT, where the device has nothing to flush.
        if opcode == FLUSH_WQES {
            refuse(CqpErrors::None);
            side.control.modify_qp(&mut qp, &to_rtr).unwrap();
            refuse(answer(opcode, minor));
        }
        let ended = side.control.modify_qp(&mut qp, &QpAttr::to_error());
        let expected = fails.then_some((opcode, 0xFFFF, minor));
        assert_eq!(code(ended), expected);
        assert_eq!(qp.state(), QpState::Err);
        side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
        refuse(CqpErrors::None);
    }
    pair.connect(B);
    pair.transfer(A, &Transfer::new(Kind::Send, 3000));
    pair.finish(&sim);
}

/// A device that asks for a reset is heard, also where the answer is not looked at.
#[test]
fn a_reset_that_the_device_asks_for() {
    let sim = sim(5);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[0];
    assert!(!side.control.progress().unwrap().reset_needed);
    side.add_qp();
    let mut qp = side.qps.pop().unwrap();
    let errors = CqpErrors::Answer {
        opcode: FLUSH_WQES,
        major: 0xFFFF,
        minor: 0x8029,
    };
    sim.configure_engine(0, |config| config.cqp_errors = errors);
    let [to_init, to_rtr, _] = pair.steps(A);
    let side = &mut pair.sides[0];
    for step in [to_init, to_rtr] {
        side.control.modify_qp(&mut qp, &step).unwrap();
    }
    let error = side
        .control
        .modify_qp(&mut qp, &QpAttr::to_error())
        .unwrap_err();
    assert!(error.needs_reset());
    assert!(error.to_string().contains("reset the function"), "{error}");
    assert!(side.control.progress().unwrap().reset_needed);
    side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
    sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::None);
    assert!(side.control.progress().unwrap().reset_needed, "it stays");
    pair.finish(&sim);
}

#[test]
fn an_event_after_the_program_ended_it_changes_nothing() {
    for qp_type in [QpType::Rc, QpType::Ud] {
        let setup = match qp_type {
            QpType::Ud => datagrams::setup(),
            _ => Setup::default(),
        };
        let sim = sim(6);
        let mut pair = Pair::simulated(&sim, setup);
        let side = &mut pair.sides[0];
        let sge = side.sge(0, 64);
        side.post_recv(0, 1, &[sge]).unwrap();
        let to_error = QpAttr::to_error();
        side.control.modify_qp(&mut side.qps[0], &to_error).unwrap();
        let commands = side.control.commands();
        // Before and after the grace of the flush.
        for _ in 0..2 {
            fail(&sim, 0, &pair.sides[0], 0, TOO_LONG);
            pair.during(Ns::from_ms(60));
        }
        let side = &mut pair.sides[0];
        assert_eq!(side.control.commands(), commands, "{qp_type:?}");
        assert_eq!(side.qps[0].state(), QpState::Err, "{qp_type:?}");
        assert!(side.reported.is_empty(), "nor is it told");
        let done = side.take();
        assert_eq!(done.len(), 1);
        assert_eq!(done[0].status, FLUSH);
        pair.finish(&sim);
    }
}

#[test]
fn a_queue_that_was_flushed_is_not_flushed_again() {
    let sim = sim(7);
    let mut pair = Pair::simulated(&sim, datagrams::setup());
    let side = &mut pair.sides[0];
    let sge = side.sge(0, 64);
    side.post_recv(0, 1, &[sge]).unwrap();
    let commands = side.control.commands();
    fail(&sim, 0, &pair.sides[0], 0, TOO_LONG);
    pair.during(Ns::from_ms(60));
    let side = &mut pair.sides[0];
    assert_eq!(side.qps[0].state(), QpState::Sqe);
    // To ERROR, and the send queue.
    assert_eq!(side.control.commands() - commands, 2);
    let to_error = QpAttr::to_error();
    side.control.modify_qp(&mut side.qps[0], &to_error).unwrap();
    // The receive queue.
    assert_eq!(side.control.commands() - commands, 3);
    let done = pair.completions(0, 1);
    assert_eq!(done[0].status, WcStatus::WrFlushErr);
    pair.sides[0].reported.clear();
    pair.finish(&sim);
}

/// A READ into memory of a key that was never given fails with its cause where the event names the
/// send queue, and is flushed as all others where it names the response.
#[test]
fn a_read_has_the_cause_if_the_event_blames_it() {
    for (read_sink, status) in [
        (ReadSink::Response, FLUSH),
        (ReadSink::Request, WcStatus::LocProtErr),
    ] {
        let variation = Variation {
            read_sink,
            ..Variation::default()
        };
        let builder = Sim::builder().functions(2).seed(21);
        let sim = builder.variation(variation).build();
        let mut pair = Pair::simulated(&sim, Setup::default());
        let mr = &pair.sides[1].mr;
        let remote = Remote {
            addr: mr.address(),
            rkey: mr.rkey(),
        };
        let side = &mut pair.sides[0];
        let into = [Sge {
            lkey: 0x00FF_F000 << 8 | 1,
            ..side.sge(0, 64)
        }];
        let read = |wr_id| SendWr {
            wr_id,
            op: Op::Read {
                into: &into,
                remote,
            },
            flags: SendFlags::SIGNALED,
        };
        side.qps[0].post_send(&[read(1), read(2)]).unwrap();
        let done = pair.completions(0, 2);
        let done: Vec<_> = done.iter().map(|wc| (wc.wr_id, wc.status)).collect();
        assert_eq!(done, [(1, status), (2, FLUSH)], "{read_sink:?}");
        pair.sides[0].reported.clear();
        pair.finish(&sim);
    }
}

/// What a queue pair failed with is not lost when its program ends it before the
/// failure is dealt with.
#[test]
fn a_program_that_is_faster_hears_why_it_failed() {
    let sim = sim(9);
    let mut pair = Pair::simulated(&sim, datagrams::setup());
    let side = &mut pair.sides[0];
    let other = side.control.alloc_pd().unwrap();
    let path = Path::new(side.gid, side.ip(), side.control.lan().mac);
    // Another protection domain's handle.
    let ah = side.control.create_ah(&other, &path).unwrap();
    let to = ah.target(Qpn::new(1).unwrap(), 0x1111);
    let op = Op::UdSend {
        data: Data::Inline(&[b"from elsewhere"]),
        imm: None,
        to,
    };
    let wr = SendWr {
        wr_id: 5,
        op,
        flags: SendFlags::SIGNALED,
    };
    side.post_send(0, &[wr]).unwrap();
    while side.qps[0].state() != QpState::Sqe {
        e810_hal::Clock::delay(&side.platform, Ns::from_us(10));
        for events in &mut side.events {
            while events.poll(&mut |_| {}).more {}
        }
    }
    let to_error = QpAttr::to_error();
    side.control.modify_qp(&mut side.qps[0], &to_error).unwrap();
    let done = pair.completions(0, 1);
    assert_eq!((done[0].wr_id, done[0].status), (5, WcStatus::LocQpOpErr));
    let side = &mut pair.sides[0];
    side.control.destroy_ah(ah).unwrap();
    side.control.dealloc_pd(other).unwrap();
    side.reported.clear();
    pair.finish(&sim);
}

/// More fail than are dealt with at one time, and those that wait are destroyed: to
/// the simulator, one that was not stopped before is a finding.
#[test]
fn one_that_waits_to_be_dealt_with_is_destroyed() {
    for index in [0, 10, 19] {
        let sim = sim(8);
        let setup = Setup {
            queue_pairs: 20,
            ..Setup::default()
        };
        let mut pair = Pair::simulated(&sim, setup);
        for qp in 0..20 {
            fail(&sim, 0, &pair.sides[0], qp, TOO_MANY_RETRIES);
        }
        let side = &mut pair.sides[0];
        for events in &mut side.events {
            while events.poll(&mut |_| {}).more {}
        }
        side.control.progress().unwrap();
        let qp = side.qps.remove(index);
        assert_eq!(qp.state(), QpState::Err);
        side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
        assert_eq!(sim.findings(), []);
        pair.during(Ns::from_ms(60));
        pair.finish(&sim);
    }
}
