//! The producer's side of a ring: where the next entry goes.

use core::fmt;

use e810_hal::{DmaWord, DmaWords};
use e810_types::{QpState, WorkQueue};

use crate::error::{Bound, SizeError};
use crate::sizing::{CHUNK_QUANTA, QUANTUM_WORDS};
use crate::slot::{NEVER_OPEN, QpKey, QpLines, QpSlot, SlotMemory, Slots, takes};
use crate::track::{self, Tag, Tracker};

const CHUNK: u64 = CHUNK_QUANTA as u64;

/// The valid bit of an entry.
pub(crate) const VALID: u64 = 1 << 63;

/// A ring and the trackers beside it, filled from one side.
pub(crate) struct Producer<W, M: SlotMemory> {
    ring: W,
    slot: QpLines<M>,
    /// One for each quantum of the ring.
    trackers: M::Groups<{ track::WORDS }>,
    /// Quanta of the ring, less one.
    mask: u64,
    /// Quanta placed since the queue was created.
    head: u64,
    /// Entries of one quantum are all alike up to here: there is room, the lap does not end, and
    /// nothing is to be cleared.
    stop: u64,
    /// The valid bit up to there: set in even laps.
    valid: u64,
    /// The poller's last known position, plus the size of the ring: no entry goes past this
    /// position.
    limit: u64,
    /// `stop` is at most the next multiple of this, a power of two.
    run: u64,
    /// Quanta that are never used at once.
    reserve: u64,
    id: u32,
    /// Of the life that it posts for.
    key: QpKey,
    /// The last STATE of that life in which the queue takes requests. The whole word is compared,
    /// so the word of another life differs.
    open: u64,
    queue: WorkQueue,
    /// For rare cases.
    slots: Slots<M>,
}

/// Quanta of a ring that are not to be used at once, and not one like the other.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Quanta that the ring has at least.
    pub(crate) least: u64,
    /// Quanta that are never used.
    pub(crate) reserve: u64,
    /// The quantum at each multiple of this, a power of two, is special; the one
    /// that begins a lap is in any case.
    pub(crate) run: u64,
}

/// An entry that is the producer's to fill.
#[derive(Clone, Copy)]
pub(crate) struct Claim {
    /// Its first quantum.
    pub(crate) index: usize,
    /// Its valid bit.
    pub(crate) valid: u64,
}

impl<W: DmaWords, M: SlotMemory> Producer<W, M> {
    /// The producer of a work queue of an opened QP.
    pub(crate) fn new(
        ring: W,
        slots: &Slots<M>,
        qp: QpKey,
        queue: WorkQueue,
        shape: Shape,
    ) -> Result<Self, SizeError> {
        let no_qp = no_qp(qp);
        let slot = slots.qp_lines(qp.id()).ok_or(no_qp)?;
        if !QpSlot::new(&slot).is(qp) {
            return Err(no_qp);
        }
        let line = QpSlot::new(&slot).queue(queue);
        let mask = line.mask();
        let trackers = slots.queue_trackers(line).ok_or(no_qp)?;
        let quanta = mask.wrapping_add(1);
        let words = quanta.saturating_mul(QUANTUM_WORDS as u64);
        for (field, value, least) in [
            ("work queue quanta", quanta, shape.least),
            ("work queue words", ring.words().len() as u64, words),
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
            slot,
            trackers,
            mask,
            head: 0,
            stop: 0,
            valid: VALID,
            limit: quanta.saturating_sub(shape.reserve),
            run: shape.run.min(quanta),
            reserve: shape.reserve,
            id: qp.id(),
            key: qp,
            open: NEVER_OPEN,
            queue,
            slots: slots.clone(),
        })
    }

    /// Restarts: an empty ring of zeros, for the same number in its next
    /// life.
    pub(crate) fn restart(&mut self, qp: QpKey) -> Result<(), SizeError> {
        let is_next = QpSlot::new(&self.slot).is(qp) && self.slots.live_qp(qp).is_some();
        if qp.id() != self.id || qp == self.key || !is_next {
            return Err(no_qp(qp));
        }
        self.key = qp;
        for cell in self.ring.words() {
            cell.set(0);
        }
        self.head = 0;
        self.stop = 0;
        self.valid = VALID;
        self.limit = self.capacity().saturating_sub(self.reserve);
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn qp_id(&self) -> u32 {
        self.id
    }

    pub(crate) const fn key(&self) -> QpKey {
        self.key
    }

    /// Whether the QP's state takes requests to `queue`, which must be this one.
    #[inline(always)]
    pub(crate) fn is_open(&mut self, queue: WorkQueue) -> bool {
        let state = QpSlot::new(&self.slot).state_word();
        state == self.open || self.opens(queue, state)
    }

    /// The same, if something was posted in this state before; otherwise call
    /// [`is_open`](Self::is_open). This calls nothing, so that a function that ends with the
    /// answer saves no registers.
    #[inline(always)]
    pub(crate) fn is_known_open(&self) -> bool {
        QpSlot::new(&self.slot).state_word() == self.open
    }

    #[cold]
    #[inline(never)]
    fn opens(&mut self, queue: WorkQueue, state: u64) -> bool {
        let opens = takes(state, self.key, queue);
        if opens {
            self.open = state;
        }
        opens
    }

    /// What was posted since the head was at `before` went to a queue in error, to
    /// which the device gives no answer: waiters on its CQ are notified.
    #[cold]
    pub(crate) fn notify_posted_in_error(&self, before: u64) {
        if self.head != before {
            self.slots.posted_in_error(&self.slot, self.queue);
        }
    }

    /// The QP's own Q_Key.
    pub(crate) fn qkey(&self) -> u32 {
        QpSlot::new(&self.slot).qkey()
    }

    /// State of the QP, for an error; RESET when it is gone, and its number perhaps another's.
    pub(crate) fn state(&self) -> QpState {
        let slot = QpSlot::new(&self.slot);
        match slot.is(self.key) {
            true => slot.state(),
            false => QpState::Reset,
        }
    }

    /// Quanta of the ring.
    pub(crate) fn capacity(&self) -> u64 {
        self.mask.wrapping_add(1)
    }

    /// Position of the next entry.
    #[inline(always)]
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Free quanta, as of the last read of the consumer's position.
    #[inline(always)]
    pub(crate) fn free(&self) -> u64 {
        self.limit.wrapping_sub(self.head)
    }

    /// Whether the next entry is not one for [`claim_one`](Self::claim_one).
    #[inline(always)]
    pub(crate) fn needs_slow_path(&self) -> bool {
        self.head == self.stop
    }

    /// Looks how far the poller is; gives the quanta free.
    pub(crate) fn refresh(&mut self) -> u64 {
        let tail = QpSlot::new(&self.slot).queue(self.queue).tail();
        let most = self.capacity().saturating_sub(self.reserve);
        let used = self.head.wrapping_sub(tail);
        self.limit = self.head.wrapping_add(most.saturating_sub(used));
        self.free()
    }

    /// Takes the next `quanta`. The caller knows that they are free and do not go past the end of
    /// the ring. Writes the tracker, then the head for the poller to see. `None`, with nothing
    /// changed, if the memory is not what it was.
    pub(crate) fn claim(&mut self, quanta: u64, wr_id: u64, tag: Tag) -> Option<Claim> {
        let claim = Claim {
            index: self.index_of(self.head),
            valid: self.valid_at(self.head),
        };
        let tracker = self.trackers.get(claim.index)?;
        let head = self.head.wrapping_add(quanta);
        Tracker(tracker).write(wr_id, tag, head);
        // Release: who sees the head sees the tracker.
        QpSlot::new(&self.slot).set_head(self.queue, head);
        self.head = head;
        self.valid = claim.valid;
        let special = head.wrapping_add(self.run.wrapping_sub(1)) & self.run.wrapping_neg();
        self.stop = special.min(self.limit);
        Some(claim)
    }

    /// As [`claim`](Self::claim) for the quantum at the head, which it gives
    /// with its valid bit, where that [is not special](Self::is_special).
    /// `queue` is this one.
    #[inline(always)]
    pub(crate) fn claim_one(
        &mut self,
        queue: WorkQueue,
        wr_id: u64,
        tag: Tag,
    ) -> Option<(&[W::Word; QUANTUM_WORDS], u64)> {
        // That a place is missing cannot happen (see `new`).
        let index = (self.head & self.mask) as usize;
        let (quanta, _) = self.ring.words().as_chunks();
        let quantum = quanta.get(index)?;
        let tracker = self.trackers.get(index)?;
        let head = self.head.wrapping_add(1);
        Tracker(tracker).write(wr_id, tag, head);
        QpSlot::new(&self.slot).set_head(queue, head);
        self.head = head;
        Some((quantum, self.valid))
    }

    /// As [`claim_one`](Self::claim_one) for the next `quanta`; `None` also where
    /// one of them is special, or a chunk would have to be padded.
    #[inline(always)]
    pub(crate) fn claim_some(
        &mut self,
        queue: WorkQueue,
        quanta: u64,
        wr_id: u64,
        tag: Tag,
    ) -> Option<(&[[W::Word; QUANTUM_WORDS]], u64)> {
        let left = self.stop.wrapping_sub(self.head);
        let room = CHUNK.wrapping_sub(self.head % CHUNK);
        if quanta > left || quanta > room {
            return None;
        }
        let index = (self.head & self.mask) as usize;
        let (all, _) = self.ring.words().as_chunks();
        let wqe = all.get(index..)?.get(..quanta as usize)?;
        let tracker = self.trackers.get(index)?;
        let head = self.head.wrapping_add(quanta);
        Tracker(tracker).write(wr_id, tag, head);
        QpSlot::new(&self.slot).set_head(queue, head);
        self.head = head;
        Some((wqe, self.valid))
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
    pub(crate) fn quanta(&self, index: usize) -> Option<&[[W::Word; QUANTUM_WORDS]]> {
        let (quanta, _) = self.ring.words().as_chunks();
        quanta.get(index..)
    }

    /// The quantum at `index`.
    #[inline(always)]
    pub(crate) fn quantum(&self, index: usize) -> Option<&[W::Word; QUANTUM_WORDS]> {
        let (quanta, _) = self.ring.words().as_chunks();
        quanta.get(index)
    }

    pub(crate) fn into_ring(self) -> W {
        self.ring
    }
}

const fn no_qp(qp: QpKey) -> SizeError {
    SizeError {
        field: "QP",
        value: qp.id() as u64,
        bound: Bound::Exactly(qp.bits()),
    }
}

impl<W, M: SlotMemory> fmt::Debug for Producer<W, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("queue", &self.queue)
            .field("qp", &self.id)
            .field("head", &self.head)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
