//! Finds the object of an asynchronous event, and marks its slot.
//!
//! Events are matched by id, as in existing drivers: none has ever relied on the context in the
//! entry to find its queue pair. An entry counts as stale only if its context is well formed and
//! of another generation. A context that the device left empty, or wrote in another form, says
//! nothing.

use e810_ceq::ae::Action;
use e810_ceq::aeqe::{Aeqe, Object};
use e810_datapath::slot::{Cause, CqKey, Marked, QpKey, SlotMemory, Slots};

/// The object of an entry, and how it was marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Marking {
    /// No object.
    Function,
    /// A queue pair.
    Qp(QpKey),
    /// A completion queue.
    Cq(CqKey),
    /// A send queue is drained, and the program wants to know.
    Drained(QpKey),
    /// Its object no longer exists, or nobody wants to know.
    Quiet,
}

/// Marks the object an entry is about.
pub(super) fn mark<M: SlotMemory>(slots: &Slots<M>, entry: &Aeqe) -> Marking {
    let context = |id: u32, generation: u32| u64::from(generation) << 32 | u64::from(id);
    match (entry.object(), entry.generation()) {
        (Object::Qp(id), Some(generation)) => {
            let key = QpKey::from_bits(context(id, generation));
            key.map_or(Marking::Quiet, |key| mark_qp(slots, key, entry))
        }
        (Object::Qp(id), None) => {
            let key = slots.qp_key(id);
            key.map_or(Marking::Quiet, |key| mark_qp(slots, key, entry))
        }
        // Existing drivers drop every other code that names a CQ (control-path 7.6).
        (Object::Cq(_), _) if entry.code.action() != Action::CqError => Marking::Quiet,
        (Object::Cq(id), Some(generation)) => {
            mark_cq(slots, CqKey::from_bits(context(id, generation)))
        }
        (Object::Cq(id), None) => mark_cq(slots, slots.cq_key(id)),
        (Object::Srq(_) | Object::Function, _) => Marking::Function,
    }
}

fn mark_cq<M: SlotMemory>(slots: &Slots<M>, key: Option<CqKey>) -> Marking {
    let marked = key.filter(|key| slots.mark_cq_failed(*key));
    marked.map_or(Marking::Quiet, Marking::Cq)
}

fn mark_qp<M: SlotMemory>(slots: &Slots<M>, key: QpKey, entry: &Aeqe) -> Marking {
    match entry.code.action() {
        Action::Flush => {
            let cause = Cause {
                queue: entry.blamed(),
                code: entry.code.flush(),
            };
            match slots.mark_failed(key, cause) {
                // Existing drivers report nothing once a flush was issued (control-path 7.6).
                Marked::Unknown | Marked::Before | Marked::Ended => Marking::Quiet,
                Marked::Now => Marking::Qp(key),
            }
        }
        Action::SuspendDone => match slots.mark_drained(key) {
            Some(true) => Marking::Drained(key),
            _ => Marking::Quiet,
        },
        _ => Marking::Qp(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;
    use e810_datapath::slot::{Layout, QpShape};
    use e810_datapath::{QpState, QpType, Registry};
    use std::boxed::Box;
    use std::vec::Vec;

    type Table = Registry<&'static [AtomicU64]>;

    /// A table with a QP and a CQ whose ids have been used so many times.
    fn table(lives: u32) -> (Table, QpKey, CqKey) {
        let layout = Layout {
            cqs: 8,
            qps: 8,
            channels: 0,
            tracker_words: 8 * QpShape::tracker_words(2, 4),
        };
        let words: Vec<_> = (0..layout.words()).map(|_| AtomicU64::new(0)).collect();
        let mut table = Registry::new(&*Box::leak(words.into_boxed_slice()), layout).unwrap();
        for _ in 1..lives {
            let cq = table.open_cq(CQ).unwrap();
            table.close_cq(cq).unwrap();
        }
        let cq = table.open_cq(CQ).unwrap();
        let shape = QpShape {
            sq_quanta: 2,
            rq_quanta: 4,
            qp_type: QpType::Rc,
            send_cq: cq,
            recv_cq: cq,
        };
        let mut qp = table.open_qp(QP, &shape).unwrap();
        for _ in 1..lives {
            table.hide_qp(qp).unwrap();
            qp = table.reopen(qp, QpType::Rc).unwrap();
            table.begin(qp).unwrap();
        }
        table.set_state(qp, QpState::Rts).unwrap();
        (table, qp, cq)
    }

    const QP: u32 = 5;
    const CQ: u32 = 3;
    /// LCE_QP_CATASTROPHIC, a QP's whatever the source.
    const OF_A_QP: u64 = 0x0700;
    /// CQ_OPERATION_ERROR, a CQ's whatever the source.
    const OF_A_CQ: u64 = 0x0203;

    fn entry(code: u64, source: u64, id: u32, context: u64) -> Aeqe {
        Aeqe::decode([context, source << 50 | code << 34 | u64::from(id)])
    }

    #[test]
    fn a_queue_pair_is_found_whatever_source_and_context() {
        for source in 0..16 {
            for context in [0, 1, u64::MAX, 0x5555_0000_0005, 7 << 32 | 6] {
                let (table, qp, _) = table(2);
                let fatal = entry(OF_A_QP, source, QP, context << 20);
                assert_eq!(mark(table.slots(), &fatal), Marking::Qp(qp));
                assert_eq!(table.slots().qp_state(qp), Some(QpState::Err));
            }
            let (table, qp, _) = table(2);
            let fatal = entry(OF_A_QP, source, QP, qp.bits());
            assert_eq!(mark(table.slots(), &fatal), Marking::Qp(qp), "{source}");
        }
    }

    #[test]
    fn a_queue_pair_of_before_is_not_the_one_of_now() {
        let (table, qp, _) = table(2);
        for generation in [1u64, 3, 4] {
            let stale = entry(OF_A_QP, 5, QP, generation << 32 | u64::from(QP));
            assert_eq!(mark(table.slots(), &stale), Marking::Quiet);
        }
        let nobody = entry(OF_A_QP, 5, QP + 1, 0);
        assert_eq!(mark(table.slots(), &nobody), Marking::Quiet);
        assert_eq!(table.slots().qp_state(qp), Some(QpState::Rts));
    }

    #[test]
    fn a_completion_queue_is_found_in_either_form_and_without() {
        for context in [|bits| bits, |bits| bits >> 1, |_| 0, |_| u64::MAX] {
            let (table, _, cq) = table(4);
            let failed = entry(OF_A_CQ, 2, CQ, context(cq.bits()));
            assert_eq!(mark(table.slots(), &failed), Marking::Cq(cq));
        }
    }

    #[test]
    fn a_completion_queue_is_failed_by_its_own_error_only() {
        for code in [0x0102, 0x0303, 0x0FFF] {
            let (table, _, cq) = table(1);
            assert_eq!(mark(table.slots(), &entry(code, 2, CQ, 0)), Marking::Quiet);
            let failed = entry(OF_A_CQ, 2, CQ, cq.bits());
            assert_eq!(mark(table.slots(), &failed), Marking::Cq(cq), "as new");
        }
    }

    /// Also where the generation of the one is twice that of the other, so that the
    /// wrong form of the context would name it.
    #[test]
    fn a_completion_queue_of_before_is_not_the_one_of_now() {
        for (then, now) in [(1, 2), (2, 4), (2, 1), (4, 2)] {
            let (mut table, qp, cq) = table(now);
            let context = then << 32 | u64::from(CQ);
            for context in [context, context >> 1] {
                let stale = entry(OF_A_CQ, 2, CQ, context);
                assert_eq!(mark(table.slots(), &stale), Marking::Quiet);
            }
            table.hide_qp(qp).unwrap();
            let failed = entry(OF_A_CQ, 2, CQ, cq.bits());
            assert_eq!(mark(table.slots(), &failed), Marking::Cq(cq), "it was not");
        }
    }
}
