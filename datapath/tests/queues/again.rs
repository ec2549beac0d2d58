//! A QP that is created again under its number, and requests that do nothing.

use e810_datapath::slot::{Cause, Marked};
use e810_datapath::{
    DroppedWrs, FlushCode, Op, QpState, QpType, SendFlags, SendWr, Wc, WcOpcode, WcStatus,
    WorkQueue,
};

use crate::common::{Bench, FLUSH, SQ_BIT, TestCq};

fn poll_all(cq: &mut TestCq) -> Vec<(u64, WcStatus)> {
    let mut all = Vec::new();
    let mut wcs = [Wc::default(); 3];
    loop {
        match cq.cq.poll(&mut wcs) {
            0 => return all,
            some => all.extend(wcs[..some].iter().map(|wc| (wc.wr_id, wc.status))),
        }
    }
}

const NOP: SendWr<'static> = SendWr {
    wr_id: 77,
    op: Op::Nop,
    flags: SendFlags::SIGNALED,
};

#[test]
fn a_nop_that_was_asked_for_completes_like_any_request() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(1, 8);
    let mut qp = bench.qp(1, cq.key, cq.key);
    qp.send.post_send(&[NOP]).unwrap();
    cq.device.complete(qp.key, SQ_BIT | 0x0C << 56);
    let mut wc = [Wc::default()];
    assert_eq!(cq.cq.poll(&mut wc), 1);
    assert_eq!((wc[0].wr_id, wc[0].status), (77, WcStatus::Success));
    assert_eq!(wc[0].opcode, WcOpcode::Nop);
    // A success with that code of another request is none.
    qp.post(1, 1, true).unwrap();
    cq.device.complete(qp.key, SQ_BIT | 0x0C << 56 | 1 << 32);
    assert_eq!(cq.cq.poll(&mut wc), 1);
    assert_eq!((wc[0].wr_id, wc[0].status), (1, WcStatus::GeneralErr));
}

#[test]
fn a_flush_completes_nops_that_were_asked_for_and_no_padding() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(1, 8);
    let mut qp = bench.qp(1, cq.key, cq.key);
    // One quantum, then eight: the chunk between is padded.
    qp.post(1, 1, false).unwrap();
    qp.post(2, 13, false).unwrap();
    qp.send
        .post_send(&[SendWr {
            flags: SendFlags::empty(),
            ..NOP
        }])
        .unwrap();
    cq.device.complete(qp.key, SQ_BIT | FLUSH);
    let flushed = WcStatus::WrFlushErr;
    assert_eq!(poll_all(&mut cq), [1, 2, 77].map(|id| (id, flushed)));
}

#[test]
fn a_qp_that_begins_anew_has_nothing_of_its_old_life() {
    let mut bench = Bench::new();
    let (mut send_cq, mut recv_cq) = (bench.cq(1, 16), bench.cq(2, 16));
    let mut qp = bench.qp(1, send_cq.key, recv_cq.key);
    for wr_id in 0..5 {
        qp.post(wr_id, 13, wr_id % 2 == 0).unwrap();
        qp.post_recv(10 + wr_id).unwrap();
    }
    // Done and not polled; half flushed by the device; listed for the sweep.
    send_cq.device.sent(qp.key, 0);
    recv_cq.device.received(qp.key, 0);
    let cause = Cause {
        queue: Some(WorkQueue::Send),
        code: FlushCode(2),
    };
    assert_eq!(
        bench.registry.slots().mark_failed(qp.key, cause),
        Marked::Now
    );
    send_cq.device.complete(qp.key, SQ_BIT | FLUSH);
    let mut wcs = [Wc::default(); 2];
    assert_eq!(send_cq.cq.poll(&mut wcs), 2, "the flush is under way");
    bench.registry.sweep(qp.key).unwrap();

    let old = qp.key;
    let discarded = bench.registry.hide_qp(old).unwrap();
    assert_eq!(
        discarded,
        DroppedWrs {
            sends: 3,
            receives: 5
        }
    );
    assert!(bench.registry.is_marked(old));
    assert!(bench.registry.reopen(old, QpType::Rc).is_err(), "marked");
    assert!(bench.registry.take_attention().is_none(), "hidden");
    for cq in [&mut send_cq, &mut recv_cq] {
        cq.cq.forget_gone();
    }
    let new = bench.registry.reopen(old, QpType::Rc).unwrap();
    assert_eq!(new.id(), old.id());
    assert_ne!(new, old);
    assert!(bench.registry.reopen(old, QpType::Rc).is_err(), "twice");
    let slots = bench.registry.slots().clone();
    assert!(qp.send.restart(old).is_err());
    qp.send.restart(new).unwrap();
    qp.recv.restart(new).unwrap();
    assert!(
        qp.sq_ring
            .iter()
            .all(|word| e810_hal::DmaWord::get(word) == 0)
    );
    // What an event says before the device has it again is of the life that is over.
    let cause = Cause {
        queue: None,
        code: FlushCode(3),
    };
    assert_eq!(slots.qp_state(new), Some(QpState::Err));
    assert_eq!(slots.mark_failed(new, cause), Marked::Unknown);
    bench.registry.begin(new).unwrap();
    assert_eq!(slots.qp_state(new), Some(QpState::Reset));
    assert!(poll_all(&mut send_cq).is_empty() && poll_all(&mut recv_cq).is_empty());

    // And it works.
    bench.registry.set_state(new, QpState::Rts).unwrap();
    qp.post(100, 1, true).unwrap();
    qp.post_recv(200).unwrap();
    assert!(poll_all(&mut send_cq).is_empty(), "nothing sweeps it");
    send_cq.device.sent(old, 0);
    send_cq.device.sent(new, 0);
    recv_cq.device.received(new, 0);
    assert_eq!(poll_all(&mut send_cq), [(100, WcStatus::Success)]);
    assert_eq!(poll_all(&mut recv_cq), [(200, WcStatus::Success)]);

    // Indexes at which only the old life had requests.
    send_cq.device.sent(new, 16);
    recv_cq.device.received(new, 4);
    assert!(poll_all(&mut send_cq).is_empty() && poll_all(&mut recv_cq).is_empty());
    for cq in [&send_cq, &recv_cq] {
        assert_eq!(cq.cq.counters().malformed, 1);
    }
}

#[test]
fn a_datagram_qp_whose_send_failed_keeps_its_receives() {
    let mut bench = Bench::new();
    let (mut send_cq, mut recv_cq) = (bench.cq(1, 16), bench.cq(2, 16));
    let qp = bench.datagram_qp(1, send_cq.key, recv_cq.key);
    let slots = bench.registry.slots().clone();
    let mut recv = qp.recv;
    recv.post_recv(&[e810_datapath::RecvWr {
        wr_id: 5,
        sges: &[],
    }])
    .unwrap();
    let cause = Cause {
        queue: Some(WorkQueue::Send),
        code: FlushCode(4),
    };
    slots.mark_failed(qp.key, cause);
    assert_eq!(slots.qp_state(qp.key), Some(QpState::Sqe));
    let pending = bench.registry.sweep(qp.key).unwrap();
    assert_eq!(pending.recv_cq, None);
    assert!(poll_all(&mut send_cq).is_empty() && poll_all(&mut recv_cq).is_empty());
    bench.registry.set_state(qp.key, QpState::Err).unwrap();
    assert_eq!(
        bench.registry.sweep(qp.key).unwrap().recv_cq,
        Some(recv_cq.key)
    );
    assert_eq!(poll_all(&mut recv_cq), [(5, WcStatus::WrFlushErr)]);
}

#[test]
fn a_drain_ends_once_and_only_where_one_began() {
    let mut bench = Bench::new();
    let cq = bench.cq(1, 8);
    let qp = bench.qp(1, cq.key, cq.key);
    let slots = bench.registry.slots().clone();
    assert_eq!(slots.mark_drained(qp.key), None, "in RTS");
    for notify in [false, true] {
        bench.registry.begin_drain(qp.key, notify).unwrap();
        assert!(slots.is_draining(qp.key));
        assert_eq!(slots.mark_drained(qp.key), Some(notify));
        assert!(!slots.is_draining(qp.key));
        assert_eq!(slots.mark_drained(qp.key), None, "once");
        assert_eq!(slots.qp_state(qp.key), Some(QpState::Sqd));
        bench.registry.set_state(qp.key, QpState::Rts).unwrap();
    }
    let cause = Cause {
        queue: None,
        code: FlushCode::GENERAL,
    };
    slots.mark_failed(qp.key, cause);
    assert!(bench.registry.begin_drain(qp.key, true).is_err());
}
