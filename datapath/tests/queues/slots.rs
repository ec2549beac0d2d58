//! The slot protocol, one thread: generations, references, reuse.

use e810_datapath::slot::{Cause, Layout, Marked, NotifyResult, QpChange, QpShape};
use e810_datapath::{CqKey, FlushCode, Notify, QpKey, QpState, QpType, Registry, SlotError, Wc};

use crate::common::{Bench, FLUSH, LAYOUT, SQ_BIT, TestCq, words};

fn poll(cq: &mut TestCq) -> usize {
    cq.cq.poll(&mut [Wc::default(); 4])
}

#[test]
fn a_slot_is_free_once_both_cqs_have_passed() {
    for bench in [Bench::new(), Bench::in_two_tables()] {
        is_free_once_both_cqs_have_passed(bench);
    }
}

fn is_free_once_both_cqs_have_passed(mut bench: Bench) {
    let (mut send_cq, mut recv_cq) = (bench.cq(0, 16), bench.cq(1, 16));
    let mut qp = bench.qp(2, send_cq.key, recv_cq.key);
    qp.post(1, 1, true).unwrap();
    qp.post_recv(2).unwrap();
    send_cq.device.sent(qp.key, 0);
    let old = qp.key;

    bench.registry.hide_qp(old).unwrap();
    assert!(bench.registry.hide_qp(old).is_err());
    recv_cq.device.received(old, 0);
    bench.registry.retire(old).unwrap();
    assert!(bench.registry.retire(old).is_err());
    assert_eq!(bench.registry.reap(), None);
    assert_eq!(poll(&mut send_cq), 0, "its entries are skipped");
    assert_eq!(bench.registry.reap(), None, "the receive CQ has not passed");
    let shape = QpShape {
        sq_quanta: 512,
        rq_quanta: 16,
        qp_type: QpType::Rc,
        send_cq: send_cq.key,
        recv_cq: recv_cq.key,
    };
    assert!(matches!(
        bench.registry.open_qp(2, &shape),
        Err(SlotError::Busy { id: 2, .. })
    ));
    assert_eq!(poll(&mut recv_cq), 0);
    assert_eq!(bench.registry.reap(), Some(2));
    assert_eq!(bench.registry.reap(), None);
    assert_eq!(send_cq.cq.counters().stale, 1);
    assert_eq!(recv_cq.cq.counters().stale, 1);

    // The next one has another generation; entries of the old one are stale.
    let mut qp = bench.qp(2, send_cq.key, recv_cq.key);
    assert_eq!(qp.key.generation(), old.generation() + 1);
    qp.post(3, 1, true).unwrap();
    send_cq.device.sent(old, 0);
    assert_eq!(poll(&mut send_cq), 0);
    send_cq.device.sent(qp.key, 0);
    assert_eq!(poll(&mut send_cq), 1);
    assert_eq!(send_cq.cq.counters().stale, 2);
}

/// A CQ that is never empty passes after as many entries as it has.
#[test]
fn a_busy_cq_passes_too() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(0, 16);
    let mut busy = bench.qp(0, cq.key, cq.key);
    let qp = bench.qp(1, cq.key, cq.key);
    bench.registry.hide_qp(qp.key).unwrap();
    bench.registry.retire(qp.key).unwrap();
    let mut position = 0;
    for n in 0..40 {
        while position < n + 3 {
            busy.post(position, 1, true).unwrap();
            cq.device.sent(busy.key, position);
            position += 1;
        }
        let mut wc = [Wc::default()];
        assert_eq!(cq.cq.poll(&mut wc), 1);
        assert_eq!(wc[0].wr_id, n);
        let reaped = bench.registry.reap();
        if reaped.is_some() {
            assert_eq!(reaped, Some(1));
            assert!(n >= 16, "not before a whole ring was consumed, {n}");
            return;
        }
    }
    panic!("a busy CQ never passed");
}

/// A QP that is being flushed leaves the CQ's list when it is destroyed.
#[test]
fn a_flushed_qp_can_be_destroyed_and_its_slot_used_again() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(0, 16);
    for round in 0..5 {
        let mut qp = bench.qp(1, cq.key, cq.key);
        let keeps = bench.qp(2 + round % 2, cq.key, cq.key);
        qp.post(round.into(), 1, true).unwrap();
        if round % 2 == 0 {
            cq.device.complete(qp.key, SQ_BIT | FLUSH);
        }
        bench.registry.set_state(qp.key, QpState::Err).unwrap();
        bench.registry.sweep(qp.key).unwrap();
        bench.registry.sweep(keeps.key).unwrap();
        assert_eq!(poll(&mut cq), 1);
        for key in [qp.key, keeps.key] {
            bench.registry.hide_qp(key).unwrap();
            bench.registry.retire(key).unwrap();
        }
        assert_eq!(bench.registry.reap(), None);
        assert_eq!(poll(&mut cq), 0);
        assert!(bench.registry.reap().is_some() && bench.registry.reap().is_some());
        assert_eq!(bench.registry.reap(), None);
    }
}

#[test]
fn a_cq_lives_as_long_as_queues_refer_to_it() {
    for bench in [Bench::new(), Bench::in_two_tables()] {
        lives_as_long_as_queues_refer_to_it(bench);
    }
}

fn lives_as_long_as_queues_refer_to_it(mut bench: Bench) {
    let cq = bench.cq(0, 16);
    let qp = bench.qp(1, cq.key, cq.key);
    assert_eq!(
        bench.registry.close_cq(cq.key),
        Err(SlotError::InUse { id: 0, queues: 2 })
    );
    bench.registry.hide_qp(qp.key).unwrap();
    bench.registry.retire(qp.key).unwrap();
    bench.registry.close_cq(cq.key).unwrap();
    // Nobody polls it any more, so nobody has to pass.
    assert_eq!(bench.registry.reap(), Some(1));
    assert!(bench.registry.close_cq(cq.key).is_err());
    assert_eq!(bench.cq(0, 16).key.generation(), cq.key.generation() + 1);
}

/// Of a QP whose queues are in another table, the latest says everything, and nothing is said of
/// one that is being destroyed.
#[test]
fn changes_of_a_qp_are_told_once() {
    let mut bench = Bench::in_two_tables();
    let (send_cq, recv_cq) = (bench.cq(0, 16), bench.cq(1, 16));
    let [first, second, third] = [1, 2, 3].map(|id| bench.qp(id, send_cq.key, recv_cq.key).key);
    let owner = bench.registry.owner();
    let cause = Cause {
        queue: None,
        code: FlushCode(2),
    };
    for key in [first, second, third] {
        owner.set_state(key, QpState::Sqd).unwrap();
    }
    owner.slots().mark_failed(first, cause);
    assert_eq!(owner.take_attention().unwrap().qp, first);
    owner.sweep(first).unwrap();
    owner.set_state(first, QpState::Err).unwrap();
    owner.hide_qp(second).unwrap();
    let mut changes: Vec<_> = std::iter::from_fn(|| owner.take_changed()).collect();
    changes.sort_by_key(|change| change.qp.id());
    let told = |qp, state, failure, is_swept| QpChange {
        qp,
        state,
        failure,
        is_swept,
    };
    let of_first = told(first, QpState::Err, Some(cause), true);
    let of_third = told(third, QpState::Sqd, None, false);
    assert_eq!(changes, [of_first, of_third]);
    owner.set_state(third, QpState::Rts).unwrap();
    let of_third = told(third, QpState::Rts, None, false);
    assert_eq!(owner.take_changed(), Some(of_third), "it is told again");
    // Both ends of a QP are in one table, and nothing is forgotten before it is destroyed.
    let here = owner.open_cq(2).unwrap();
    let shape = |send_cq, recv_cq| QpShape {
        sq_quanta: 512,
        rq_quanta: 16,
        qp_type: QpType::Rc,
        send_cq,
        recv_cq,
    };
    let other = SlotError::OtherTable { cq: 2 };
    let mixed = shape(send_cq.key, here);
    assert_eq!(owner.open_qp_elsewhere(0, &mixed), Err(other));
    let mixed = shape(here, send_cq.key);
    let other = SlotError::OtherTable { cq: 0 };
    assert_eq!(owner.open_qp(0, &mixed), Err(other));
    assert!(owner.forgotten(third.id()).is_err());
    assert!(owner.forgotten(4).is_err());
    // An answer may come after what has failed it.
    let mut table = Registry::new(words(LAYOUT.words()), LAYOUT).unwrap();
    for key in [send_cq.key, recv_cq.key] {
        table.open_cq_as(key, None).unwrap();
    }
    table
        .open_qp_as(first, &shape(send_cq.key, recv_cq.key))
        .unwrap();
    table.apply(&of_first).unwrap();
    let late = told(first, QpState::Rts, None, false);
    table.apply(&late).unwrap();
    let slots = table.slots();
    assert_eq!(slots.qp_state(first), Some(QpState::Err));
    assert_eq!(slots.failure(first), Some(cause));
    assert!(table.apply(&of_third).is_err(), "it is not open there");
}

#[test]
fn handles_of_the_dead_do_nothing() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(0, 16);
    let qp = bench.qp(1, cq.key, cq.key);
    let slots = bench.registry.slots().clone();
    bench.registry.hide_qp(qp.key).unwrap();
    let cause = Cause {
        queue: None,
        code: FlushCode::GENERAL,
    };
    assert_eq!(slots.mark_failed(qp.key, cause), Marked::Unknown);
    assert!(bench.registry.set_state(qp.key, QpState::Rts).is_err());
    assert!(bench.registry.sweep(qp.key).is_err());
    assert_eq!(slots.qp_state(qp.key), None);
    assert!(bench.registry.take_attention().is_none());
    for bits in [
        0,
        1,
        u64::MAX,
        1 << 63,
        qp.key.bits() + (5 << 32),
        1 << 32 | 77,
    ] {
        if let Some(key) = QpKey::from_bits(bits) {
            assert_eq!(slots.mark_failed(key, cause), Marked::Unknown);
        }
        if let Some(key) = CqKey::from_bits(bits)
            && key != cq.key
        {
            assert_eq!(slots.signal_cq(key), NotifyResult::NoSuchCq);
            assert!(!slots.mark_cq_failed(key));
        }
    }
    assert!(slots.mark_cq_failed(cq.key));
    assert!(cq.cq.has_failed());
    assert_eq!(
        slots.signal_cq(cq.key),
        NotifyResult::Spurious,
        "nobody asked"
    );
    assert!(!cq.cq.arm(Notify::Any) && !cq.cq.arm(Notify::Any));
    assert!(!cq.cq.take_event());
    assert!(slots.signal_cq(cq.key).is_delivered());
    assert_eq!(slots.signal_cq(cq.key), NotifyResult::Spurious, "told once");
    assert!(cq.cq.take_event());
    assert!(!cq.cq.take_event());
}

/// A failed QP that is destroyed before anybody attended to it.
#[test]
fn attention_is_not_lost_and_not_given_to_the_dead() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(0, 16);
    let (first, second) = (bench.qp(1, cq.key, cq.key), bench.qp(2, cq.key, cq.key));
    let slots = bench.registry.slots().clone();
    let cause = Cause {
        queue: None,
        code: FlushCode(7),
    };
    assert_eq!(slots.mark_failed(first.key, cause), Marked::Now);
    assert_eq!(slots.mark_failed(second.key, cause), Marked::Now);
    bench.registry.hide_qp(second.key).unwrap();
    bench.registry.retire(second.key).unwrap();
    assert_eq!(poll(&mut cq), 0);
    assert_eq!(bench.registry.reap(), None, "it is still on the list");
    assert_eq!(
        bench
            .registry
            .take_attention()
            .map(|attention| attention.qp),
        Some(first.key)
    );
    assert_eq!(bench.registry.take_attention(), None);
    assert_eq!(bench.registry.reap(), Some(2));
}

#[test]
fn tables_and_shapes_are_checked() {
    let layout = Layout {
        cqs: 2,
        qps: 2,
        channels: 0,
        tracker_words: 1700,
    };
    assert!(matches!(
        Registry::new(words(layout.words() - 1), layout),
        Err(SlotError::Memory { .. })
    ));
    let many = Layout {
        qps: (1 << 24) + 1,
        channels: 0,
        ..layout
    };
    assert!(Registry::new(words(1), many).is_err());
    let mut registry = Registry::new(words(layout.words()), layout).unwrap();
    assert!(registry.open_cq(2).is_err());
    let cq = registry.open_cq(1).unwrap();
    assert!(matches!(registry.open_cq(1), Err(SlotError::Busy { .. })));
    let shape = QpShape {
        sq_quanta: 512,
        rq_quanta: 16,
        qp_type: QpType::Rc,
        send_cq: cq,
        recv_cq: cq,
    };
    assert!(registry.open_qp(2, &shape).is_err());
    let odd = QpShape {
        sq_quanta: 513,
        ..shape
    };
    assert!(registry.open_qp(0, &odd).is_err());
    registry.open_qp(0, &shape).unwrap();
    assert!(matches!(
        registry.open_qp(1, &shape),
        Err(SlotError::NoSpace { words: 1584 })
    ));
}
