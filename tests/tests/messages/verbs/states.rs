//! The state machine from outside: the two directions into every state, and the
//! ways out of it.

use e810::{Error, QpAttr, QpState, TransitionError, WcStatus};
use e810_tests::traffic::verbs::queues::reset;
use e810_tests::traffic::{Kind, Pair, Setup, Transfer};

use crate::verbs::{A, B, sim};

/// Why a change of state was refused.
#[expect(clippy::panic, reason = "another error ends the test")]
fn transition(error: Error) -> TransitionError {
    match error {
        Error::Datapath(e810_datapath::Error::Transition(error)) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn the_state_that_the_caller_names_has_to_be_the_one() {
    let sim = sim(20);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[0];
    let claim = |state| QpAttr {
        cur_state: Some(state),
        ..QpAttr::default()
    };
    side.control
        .modify_qp(&mut side.qps[0], &claim(QpState::Rts))
        .unwrap();
    let wrong = side
        .control
        .modify_qp(&mut side.qps[0], &claim(QpState::Sqd));
    assert_eq!(
        transition(wrong.unwrap_err()),
        TransitionError::OtherState {
            from: QpState::Rts,
            given: QpState::Sqd
        }
    );
    side.add_qp();
    let early = side
        .control
        .modify_qp(&mut side.qps[1], &claim(QpState::Reset));
    assert!(matches!(
        transition(early.unwrap_err()),
        TransitionError::Forbidden { .. } | TransitionError::CurState { .. }
    ));
    pair.finish(&sim);
}

#[test]
fn reset_needs_the_completion_queues() {
    let sim = sim(21);
    let setup = Setup {
        separate_cqs: true,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let side = &mut pair.sides[0];
    let to_reset = QpAttr {
        state: Some(QpState::Reset),
        ..QpAttr::default()
    };
    let commands = side.control.commands();
    let error = side
        .control
        .modify_qp(&mut side.qps[0], &to_reset)
        .unwrap_err();
    assert!(error.to_string().contains("reset_qp"), "{error}");
    let [first, _] = &mut side.cqs[..] else {
        panic!("two CQs");
    };
    let one = side.control.reset_qp(&mut side.qps[0], &mut [first]);
    assert!(matches!(one, Err(Error::Invalid { .. })));
    assert_eq!(side.control.commands(), commands, "nothing happened");
    reset(&mut pair);
    // In RESET already, the plain way is enough.
    let side = &mut pair.sides[0];
    side.control.modify_qp(&mut side.qps[0], &to_reset).unwrap();
    pair.finish(&sim);
}

/// What is changed in SQD counts from the way back to RTS on.
#[test]
fn attributes_change_while_the_send_queue_is_drained() {
    let sim = sim(22);
    let mut pair = Pair::simulated(&sim, Setup::default());
    pair.transfer(A, &Transfer::new(Kind::Send, 100));
    let side = &mut pair.sides[0];
    side.control
        .modify_qp(&mut side.qps[0], &QpAttr::to_sqd(false))
        .unwrap();
    pair.until("a drained queue", |pair| {
        let side = &pair.sides[0];
        let said = side.control.query_qp(&side.qps[0], e810::AttrMask::empty());
        !said.unwrap().sq_draining
    });
    let side = &mut pair.sides[0];
    let commands = side.control.commands();
    let change = QpAttr {
        rnr_retry: Some(0),
        ..QpAttr::default()
    };
    side.control.modify_qp(&mut side.qps[0], &change).unwrap();
    assert_eq!(side.control.commands(), commands, "kept for later");
    let rts = QpAttr {
        state: Some(QpState::Rts),
        cur_state: Some(QpState::Sqd),
        ..QpAttr::default()
    };
    side.control.modify_qp(&mut side.qps[0], &rts).unwrap();
    // No receive, and now no patience either.
    e810_tests::traffic::scenarios::send(&mut pair, A, 1, 0, 64, true);
    assert_eq!(pair.completions(0, 1)[0].status, WcStatus::RnrRetryExcErr);
    pair.sides[0].reported.clear();
    pair.finish(&sim);
}

/// A drain that the device never ends is told after its limit, and ERR still
/// works.
#[test]
fn a_drain_that_does_not_end() {
    let sim = sim(23);
    let mut pair = Pair::simulated(&sim, Setup::default());
    // The peer has no receive, and it waits for ever.
    e810_tests::traffic::scenarios::send(&mut pair, A, 1, 0, 64, true);
    pair.during(e810_hal::Ns::from_ms(1));
    let side = &mut pair.sides[0];
    side.control
        .modify_qp(&mut side.qps[0], &QpAttr::to_sqd(true))
        .unwrap();
    let rts = QpAttr {
        state: Some(QpState::Rts),
        ..QpAttr::default()
    };
    let error = side.control.modify_qp(&mut side.qps[0], &rts).unwrap_err();
    assert_eq!(transition(error), TransitionError::Draining);
    sim.run(e810_hal::Ns::from_ms(5_001));
    let side = &mut pair.sides[0];
    let error = side.control.modify_qp(&mut side.qps[0], &rts).unwrap_err();
    assert!(error.to_string().contains("drained send queue"), "{error}");
    side.control
        .modify_qp(&mut side.qps[0], &QpAttr::to_error())
        .unwrap();
    assert_eq!(pair.completions(0, 1)[0].status, WcStatus::WrFlushErr);
    pair.sides[B.side].reported.clear();
    pair.finish(&sim);
}
