//! Giving a slot to a QP, or to the next life of one.

use core::sync::atomic::Ordering;

use e810_types::{QpState, QpType, WorkQueue};

use super::qp::{
    EXTENT, GENERATION, IDENTITY, QKEY, QpSlot, RECV_CQ, RETIRED, RQ_HEAD, SEND_CQ, SQ_HEAD, STATE,
    generation_bits, is_of, state_bits,
};
use super::queue::Guard;
use super::{Atom, QpKey, key};

impl<A: Atom> QpSlot<'_, A> {
    /// The key of the slot's next life.
    pub(super) fn next_key(&self, id: u32) -> QpKey {
        let generation = self.control()[GENERATION].load(Ordering::Relaxed) as u32;
        QpKey::new(id, key::next_generation(generation))
    }

    /// Control: gives a hidden slot its next life, with the same queues, in ERR. Nobody else
    /// looks at it: producer and pollers are at rest, and no event finds it before
    /// [`begin`](Self::begin).
    pub(super) fn reopen(&self, key: QpKey, qp_type: QpType) {
        let queues = [WorkQueue::Send, WorkQueue::Recv].map(|queue| {
            let line = self.queue(queue);
            let quanta = line.mask().wrapping_add(1) as u32;
            (quanta, line.trackers() as u32)
        });
        let cqs = self.awaited().map(|(cq, _)| cq);
        let [(send_quanta, send_trackers), (recv_quanta, recv_trackers)] = queues;
        let [send_cq, recv_cq] = cqs;
        let cq_id = |bits: u64| bits as u32 & key::ID_MASK;
        self.open_in(
            state_bits(QpState::Err),
            key,
            &Opening {
                qp_type,
                send: QueueOpening {
                    cq: cq_id(send_cq),
                    quanta: send_quanta,
                    trackers: send_trackers,
                },
                recv: QueueOpening {
                    cq: cq_id(recv_cq),
                    quanta: recv_quanta,
                    trackers: recv_trackers,
                },
                extent: self.extent(),
                send_cq,
                recv_cq,
            },
        );
    }

    /// Control: gives a free slot to a new QP, which is in RESET.
    pub(super) fn open(&self, key: QpKey, opening: &Opening) {
        self.open_in(state_bits(QpState::Reset), key, opening);
        self.begin(key);
    }

    /// Control: the device has the QP, in RESET: from now on events find it.
    pub(super) fn begin(&self, key: QpKey) {
        let state = generation_bits(key) | state_bits(QpState::Reset);
        self.control()[STATE].store(state, Ordering::Release);
    }

    /// Whether events find `key`, which lives here.
    pub(super) fn has_begun(&self, key: QpKey) -> bool {
        is_of(self.state_word(), key)
    }

    /// No event finds a STATE without a generation.
    fn open_in(&self, state: u64, key: QpKey, opening: &Opening) {
        let control = self.control();
        let generation = key.generation();
        control[GENERATION].store(generation.into(), Ordering::Relaxed);
        control[EXTENT].store(opening.extent, Ordering::Relaxed);
        control[RETIRED].store(0, Ordering::Relaxed);
        control[QKEY].store(0, Ordering::Relaxed);
        let producer = self.producer();
        producer[SQ_HEAD].store(0, Ordering::Relaxed);
        producer[RQ_HEAD].store(0, Ordering::Relaxed);
        producer[SEND_CQ].store(opening.send_cq, Ordering::Relaxed);
        producer[RECV_CQ].store(opening.recv_cq, Ordering::Relaxed);
        control[STATE].store(state, Ordering::Release);
        for (queue, shape) in [
            (WorkQueue::Send, &opening.send),
            (WorkQueue::Recv, &opening.recv),
        ] {
            let guard = Guard::new(generation, shape.cq, opening.qp_type);
            self.queue(queue).open(guard, shape.quanta, shape.trackers);
        }
        control[IDENTITY].store(key.bits(), Ordering::Release);
    }
}

/// One queue of an opening.
#[derive(Debug)]
pub(super) struct QueueOpening {
    pub(super) cq: u32,
    pub(super) quanta: u32,
    /// Index of the first tracker among all.
    pub(super) trackers: u32,
}

/// What a slot is opened with.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) qp_type: QpType,
    pub(super) send: QueueOpening,
    pub(super) recv: QueueOpening,
    pub(super) extent: u64,
    pub(super) send_cq: u64,
    pub(super) recv_cq: u64,
}
