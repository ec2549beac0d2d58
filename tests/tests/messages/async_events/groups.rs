//! Members of multicast groups that cannot take their datagrams.

use std::net::IpAddr;

use e810::{AsyncEvent, Data, Op, Path, QpInit, QpState, Qpn};
use e810_ceq::ae::{AeCode, QpEvent};
use e810_ceq::aeqe::Object;
use e810_hal::regs::PFPE_CQPDB;
use e810_tests::traffic::End;
use e810_tests::traffic::verbs::datagrams::{QKEY, setup};

use crate::async_events::stage::{Stage, find};
use crate::async_events::table::rows;
use crate::async_events::{A, B};

rows! { RAISED, raised, Raised:
    0x0382 ROCE_BAD_MC_QPID, member_that_is_not_there, "a datagram to a group whose list was changed to name a queue pair that does not exist";
    0x0383 MCG_QP_PROTOCOL_MISMATCH, member_that_is_a_connection, "a datagram to a group whose list was changed to name a connection";
}

/// A member that is valid (control-path 4.14).
const VALID: u64 = 1 << 31;

fn group() -> IpAddr {
    "239.8.10.2".parse().unwrap()
}

/// B joins the group; in the list that the device reads stands another number.
fn join_as(stage: &mut Stage, number: u32) {
    let member = u64::from(stage.pair.number(B)) | VALID;
    let platform = stage.pair.sides[1].platform.clone();
    let watched = platform.clone();
    platform.before(PFPE_CQPDB.off(), move || {
        // The lists are made when the first queue pair joins a group.
        let blocks = watched.blocks();
        let lists = blocks.iter().rfind(|block| block.align == 4096);
        if let Some((list, at)) = lists.and_then(|list| Some((list, find(list, member)?))) {
            list.set(at, u64::from(number) | VALID);
        }
    });
    let side = &mut stage.pair.sides[1];
    let gid = side.gid;
    side.control
        .attach_mcast(&side.qps[0], gid, group())
        .unwrap();
    platform.before_nothing();
}

/// A sends a datagram to the group.
fn send_to_group(stage: &mut Stage) {
    let side = &mut stage.pair.sides[0];
    let path = Path::to_group(side.gid, group());
    let ah = side.control.create_ah(&side.pd, &path).unwrap();
    let to = ah.target(Qpn::MULTICAST, QKEY);
    stage.succeeds(
        A,
        Op::UdSend {
            data: Data::Inline(&[b"to all"]),
            imm: None,
            to,
        },
    );
    stage.pair.sides[0].control.destroy_ah(ah).unwrap();
}

fn leave(stage: &mut Stage) {
    let side = &mut stage.pair.sides[1];
    let gid = side.gid;
    side.control
        .detach_mcast(&side.qps[0], gid, group())
        .unwrap();
}

/// Nobody has the queue pair, so nobody is told; the log has it.
fn member_that_is_not_there() -> AsyncEvent {
    let mut stage = Stage::new(setup());
    // One behind the last.
    let not_there = stage.pair.number(End { side: 1, qp: 1 }) + 1;
    join_as(&mut stage, not_there);
    let skipped = stage.pair.sides[1].skipped;
    send_to_group(&mut stage);
    let event = stage.logged(1, AeCode::ROCE_BAD_MC_QPID);
    assert_eq!(event.object, Object::Qp(not_there));
    assert_eq!(event.qp_event(), Some(QpEvent::Fatal));
    assert_eq!(stage.pair.sides[1].skipped, skipped + 1);
    leave(&mut stage);
    stage.end();
    event
}

fn member_that_is_a_connection() -> AsyncEvent {
    let mut stage = Stage::new(setup());
    let side = &mut stage.pair.sides[1];
    let init = QpInit::rc(&side.cqs[0], &side.cqs[0], stage_caps());
    let connection = side.control.create_qp(&side.pd, &init).unwrap();
    let number = connection.number().get();
    join_as(&mut stage, number);
    send_to_group(&mut stage);
    let event = stage.reported_for(1, Object::Qp(number));
    assert_eq!((event.blamed, event.receive), (None, None));
    assert_eq!(event.qp_event(), Some(QpEvent::Fatal));
    assert_eq!(connection.state(), QpState::Err);
    let side = &mut stage.pair.sides[1];
    side.control.destroy_qp(connection).unwrap();
    leave(&mut stage);
    stage.end();
    event
}

fn stage_caps() -> e810::QpCaps {
    setup().caps
}

/// A queue pair that is destroyed is in no group any more by then: whenever a
/// datagram comes, the device finds no member that is not there.
#[test]
fn a_member_that_is_destroyed_or_reset_is_never_missed() {
    for reset in [false, true] {
        let mut stage = Stage::new(setup());
        let side = &mut stage.pair.sides[1];
        let gid = side.gid;
        side.control
            .attach_mcast(&side.qps[0], gid, group())
            .unwrap();
        let frame = recorded(&mut stage);
        let sim = stage.sim.clone();
        let platform = stage.pair.sides[1].platform.clone();
        // Before each command of the way out.
        platform.before(PFPE_CQPDB.off(), move || {
            assert_eq!(sim.receive_frames([frame.as_slice()]), 1);
        });
        let side = &mut stage.pair.sides[1];
        if reset {
            let mut cqs: Vec<_> = side.cqs.iter_mut().collect();
            side.control.reset_qp(&mut side.qps[0], &mut cqs).unwrap();
        } else {
            stage.pair.renew(B);
        }
        platform.before_nothing();
        stage.pair.during(e810_hal::Ns::from_ms(5));
        let log = stage.pair.sides[1].events[0].log();
        assert_eq!(log.total(), 0, "{:?}", log.iter().next());
        stage.end();
    }
}

/// The frame of a datagram to the group.
fn recorded(stage: &mut Stage) -> Vec<u8> {
    use std::sync::{Arc, Mutex};
    let frames = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&frames);
    stage.sim.set_capture(Some(Box::new(move |frame| {
        seen.lock().unwrap().push(frame.bytes.to_vec());
    })));
    send_to_group(stage);
    stage.sim.set_capture(None);
    let mut frames = frames.lock().unwrap();
    assert_eq!(frames.len(), 1);
    frames.remove(0)
}
