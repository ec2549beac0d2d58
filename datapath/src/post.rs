//! The poster's side of a ring: where the next entry goes.

use core::fmt;

use e810_hal::Words;

use crate::error::{Bound, Queue, SizeError};
use crate::sizing::QUANTUM_WORDS;
use crate::slot::{QpKey, SlotMemory, Slots};
use crate::state::QpState;
use crate::track::{self, Tag};

/// The valid bit of an entry.
pub(crate) const VALID: u64 = 1 << 63;

/// A ring and the trackers beside it, filled from one side.
pub(crate) struct Poster<W, M: SlotMemory> {
    ring: W,
    slots: Slots<M>,
    queue: Queue,
    id: u32,
    /// Index of the slot's head and state words in the slot table's memory, and
    /// of the ring's first tracker.
    head_word: usize,
    state_word: usize,
    trackers: usize,
    /// Quanta of the ring, less one.
    mask: u64,
    /// Quanta that are never used at once.
    reserve: u64,
    /// Quanta placed since the queue was created.
    head: u64,
    /// The valid bit of the next entry: set in even laps.
    valid: u64,
    /// Where the poller was when last looked, plus what the ring holds: no
    /// entry goes past this position.
    limit: u64,
}

/// An entry that is the poster's to fill.
#[derive(Clone, Copy)]
pub(crate) struct Claim {
    /// Its first quantum.
    pub(crate) index: usize,
    /// Its valid bit.
    pub(crate) valid: u64,
}

impl<W: Words, M: SlotMemory> Poster<W, M> {
    /// The poster of a work queue of an opened QP.
    pub(crate) fn new(
        ring: W,
        slots: Slots<M>,
        qp: QpKey,
        queue: Queue,
        least_quanta: u64,
        reserve: u64,
    ) -> Result<Self, SizeError> {
        let slot = slots.live_qp(qp).ok_or(SizeError {
            field: "QP",
            value: qp.id().into(),
            bound: Bound::Exactly(qp.bits()),
        })?;
        let line = slot.queue(queue);
        let mask = line.mask();
        let trackers = line.trackers();
        let quanta = mask.wrapping_add(1);
        let words = quanta.saturating_mul(QUANTUM_WORDS as u64);
        for (field, value, least) in [
            ("work queue quanta", quanta, least_quanta),
            ("work queue words", ring.cells().len() as u64, words),
        ] {
            if value < least {
                return Err(SizeError {
                    field,
                    value,
                    bound: Bound::AtLeast(least),
                });
            }
        }
        Ok(Self {
            ring,
            queue,
            id: qp.id(),
            head_word: slots.head_word(qp.id(), queue),
            state_word: slots.state_word(qp.id()),
            slots,
            trackers,
            mask,
            reserve,
            head: 0,
            valid: VALID,
            limit: quanta.saturating_sub(reserve),
        })
    }

    #[inline(always)]
    pub(crate) fn qp_id(&self) -> u32 {
        self.id
    }

    /// Whether the QP's state takes requests to `queue`, which is this one.
    #[inline(always)]
    pub(crate) fn is_open(&self, queue: Queue) -> bool {
        self.slots.takes(self.state_word, queue)
    }

    /// State of the QP, for an error.
    pub(crate) fn state(&self) -> QpState {
        let slot = self.slots.qp(self.id);
        slot.map_or(QpState::Reset, |slot| slot.state())
    }

    /// Quanta of the ring.
    pub(crate) fn quanta_in_all(&self) -> u64 {
        self.mask.wrapping_add(1)
    }

    /// Position of the next entry.
    #[inline(always)]
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Quanta free, as far as was looked.
    #[inline(always)]
    pub(crate) fn free(&self) -> u64 {
        self.limit.wrapping_sub(self.head)
    }

    /// Looks how far the poller is; gives the quanta free.
    pub(crate) fn refresh(&mut self) -> u64 {
        if let Some(slot) = self.slots.qp(self.id) {
            let tail = slot.queue(self.queue).tail();
            let most = self.quanta_in_all().saturating_sub(self.reserve);
            let used = self.head.wrapping_sub(tail);
            self.limit = self.head.wrapping_add(most.saturating_sub(used));
        }
        self.free()
    }

    /// Takes the next `quanta`, of which the caller knows that they are free
    /// and do not go past the end of the ring: writes the tracker, then the head
    /// for the poller to see. `None`, with nothing changed, when the memory is
    /// not what it was.
    #[inline(always)]
    pub(crate) fn claim(&mut self, quanta: u64, wr_id: u64, tag: Tag) -> Option<Claim> {
        let claim = Claim {
            index: (self.head & self.mask) as usize,
            valid: self.valid,
        };
        let tracker = self.trackers.wrapping_add(claim.index);
        let tracker = self.slots.trackers().get(tracker)?;
        let head_word = self.slots.atoms().get(self.head_word)?;
        let head = self.head.wrapping_add(quanta);
        track::write(tracker, wr_id, tag, head);
        self.head = head;
        // Release: who sees the head sees the tracker.
        crate::slot::publish(head_word, head);
        if head & self.mask == 0 {
            self.valid ^= VALID;
        }
        Some(claim)
    }

    /// As [`claim`](Self::claim) for one quantum, which it gives with its valid
    /// bit.
    #[inline(always)]
    pub(crate) fn claim_one(
        &mut self,
        wr_id: u64,
        tag: Tag,
    ) -> Option<(&[W::Cell; QUANTUM_WORDS], u64)> {
        // Written one after the other, so that little is alive at a time; that
        // one of the three places is missing cannot happen (see `new`).
        let index = (self.head & self.mask) as usize;
        let head = self.head.wrapping_add(1);
        let tracker = self.trackers.wrapping_add(index);
        track::write(self.slots.trackers().get(tracker)?, wr_id, tag, head);
        crate::slot::publish(self.slots.atoms().get(self.head_word)?, head);
        self.head = head;
        let valid = self.valid;
        if head & self.mask == 0 {
            self.valid = valid ^ VALID;
        }
        let (quanta, _) = self.ring.cells().as_chunks();
        Some((quanta.get(index)?, valid))
    }

    /// The valid bit at a position.
    pub(crate) fn valid_at(&self, position: u64) -> u64 {
        if position & self.mask.wrapping_add(1) == 0 {
            VALID
        } else {
            0
        }
    }

    /// Ring index of a position.
    pub(crate) fn index_of(&self, position: u64) -> usize {
        (position & self.mask) as usize
    }

    /// The quanta from `index` on.
    #[inline(always)]
    pub(crate) fn quanta(&self, index: usize) -> Option<&[[W::Cell; QUANTUM_WORDS]]> {
        let (quanta, _) = self.ring.cells().as_chunks();
        quanta.get(index..)
    }

    /// The quantum at `index`.
    #[inline(always)]
    pub(crate) fn quantum(&self, index: usize) -> Option<&[W::Cell; QUANTUM_WORDS]> {
        let (quanta, _) = self.ring.cells().as_chunks();
        quanta.get(index)
    }

    pub(crate) fn into_ring(self) -> W {
        self.ring
    }
}

impl<W, M: SlotMemory> fmt::Debug for Poster<W, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poster")
            .field("queue", &self.queue)
            .field("qp", &self.id)
            .field("head", &self.head)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
