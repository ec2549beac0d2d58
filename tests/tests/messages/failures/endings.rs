//! Failures that the program asks for, and queues that end with them.

use e810::{QpAttr, QpState, WcOpcode, WcStatus};
use e810_ceq::aeqe::Object as AeObject;
use e810_hal::Ns;
use e810_sim::Sim;
use e810_sim::Variation;
use e810_sim::link::Verdict;
use e810_sim::pe::CqpErrors;
use e810_sim::variation::FlushStyle;
use e810_tests::traffic::{Kind, Pair, Setup, Transfer};

use crate::failures::requests::{A, B, FLUSH, flushed, of_queue, send, sim, write};

#[test]
fn an_error_that_the_program_asks_for() {
    for (seed, style) in (300..).zip([FlushStyle::PerQueue, FlushStyle::PerWqe]) {
        let sim = Sim::builder()
            .functions(2)
            .seed(seed)
            .variation(Variation {
                flush: style,
                ..Variation::default()
            })
            .build();
        let mut pair = Pair::simulated(&sim, Setup::default());
        sim.set_link_hook(Some(Box::new(|_| Verdict::Drop)));
        let side = &mut pair.sides[0];
        let sge = side.sge(0, 100);
        for id in 0..10 {
            side.post_send(0, &[send(id, &[sge])]).unwrap();
            side.post_recv(0, 100 + id, &[sge]).unwrap();
        }
        let to_error = QpAttr::to_error();
        side.control.modify_qp(&mut side.qps[0], &to_error).unwrap();
        assert_eq!(side.qps[0].state(), QpState::Err);
        side.post_send(0, &[send(10, &[sge])]).unwrap();
        side.post_recv(0, 110, &[sge]).unwrap();
        pair.during(Ns::from_ms(60));
        let done = pair.sides[0].take();
        assert_eq!(of_queue(&done, false), flushed(FLUSH, 0..11), "{style:?}");
        assert_eq!(of_queue(&done, true), flushed(FLUSH, 100..111), "{style:?}");
        assert!(
            done.iter()
                .all(|wc| matches!(wc.opcode, WcOpcode::Send | WcOpcode::Recv))
        );
        // Once more changes nothing.
        let side = &mut pair.sides[0];
        side.control.modify_qp(&mut side.qps[0], &to_error).unwrap();
        sim.set_link_hook(None);
        for end in [A, B] {
            pair.renew(end);
        }
        for end in [A, B] {
            pair.connect(end);
        }
        pair.transfer(A, &Transfer::new(Kind::Send, 3000));
        pair.finish(&sim);
    }
}

#[test]
fn a_device_that_cannot_flush() {
    for opcode in [
        // MODIFY_QP, FLUSH_WQES (control-path 4.2).
        0x01, 0x22,
    ] {
        let sim = sim(10);
        let mut pair = Pair::simulated(&sim, Setup::default());
        sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::Opcode(opcode));
        sim.set_link_hook(Some(Box::new(|_| Verdict::Drop)));
        let side = &mut pair.sides[0];
        let sge = side.sge(0, 100);
        for id in 0..10 {
            side.post_send(0, &[send(id, &[sge])]).unwrap();
            side.post_recv(0, 100 + id, &[sge]).unwrap();
        }
        let to_error = QpAttr::to_error();
        let ended = side.control.modify_qp(&mut side.qps[0], &to_error);
        // No driver looks at the end of a flush.
        assert_eq!(ended.is_err(), opcode == 0x01, "{ended:?}");
        if opcode == 0x01 {
            pair.during(Ns::from_ms(60));
            assert_eq!(pair.sides[0].take(), [], "the device may still write");
            sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::None);
        }
        pair.during(Ns::from_ms(60));
        let done = pair.sides[0].take();
        assert_eq!(of_queue(&done, false), flushed(FLUSH, 0..10));
        assert_eq!(of_queue(&done, true), flushed(FLUSH, 100..110));
        let side = &mut pair.sides[0];
        let qp = side.qps.remove(0);
        side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
        side.add_qp();
        sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::None);
        sim.set_link_hook(None);
        pair.renew(B);
        for end in [A, B] {
            pair.connect(end);
        }
        pair.transfer(A, &Transfer::new(Kind::Send, 3000));
        pair.sides[0].failed.clear();
        pair.finish(&sim);
    }
}

#[test]
fn a_cq_that_overflows() {
    let sim = sim(9);
    let setup = Setup {
        cqe: 4,
        separate_cqs: true,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let remote = pair.remote(A, 0);
    let side = &mut pair.sides[0];
    side.polling = false;
    let sge = side.sge(0, 8);
    for id in 0..40 {
        side.post_send(0, &[write(id, &[sge], remote)]).unwrap();
    }
    pair.during(Ns::from_ms(2));
    let side = &mut pair.sides[0];
    // What cannot be completed any more cannot be flushed either: said once.
    assert!(side.failed.len() <= 1, "{:?}", side.failed);
    side.failed.clear();
    let reported: Vec<_> = side
        .reported
        .iter()
        .map(|reported| (reported.name(), reported.object))
        .collect();
    let send_cq = side.cqs[0].number();
    let overflow = ("CQ_OPERATION_ERROR", AeObject::Cq(send_cq));
    assert!(reported.contains(&overflow), "{reported:?}");
    assert!(side.cqs[0].has_failed());
    assert!(!side.cqs[1].has_failed());
    side.polling = true;
    pair.during(Ns::from_ms(60));
    let done = pair.sides[0].take();
    // What was in it is still there; the rest is flushed with its queue pair.
    let good = done
        .iter()
        .take_while(|wc| wc.status == WcStatus::Success)
        .count();
    assert!((1..=10).contains(&good), "{done:?}");
    let ids: Vec<_> = done.iter().map(|wc| wc.wr_id).collect();
    assert_eq!(ids, (0..40).collect::<Vec<_>>(), "each once, in order");
    assert!(
        done.iter()
            .skip(good)
            .all(|wc| wc.status != WcStatus::Success)
    );
    pair.finish(&sim);
}
