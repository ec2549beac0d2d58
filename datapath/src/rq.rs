//! The receive queue: buffers for incoming messages (data-path 2).
//!
//! There is no doorbell: the device finds receives by their valid bit, so each receive counts as
//! soon as its header is published.

use core::fmt;

use e810_hal::{Barrier, DmaWord, DmaWords};
use e810_types::{QpState, WorkQueue};

use crate::error::{Bound, PostError, Refused, SizeError};
use crate::producer::{Producer, Shape};
use crate::sizing::{MAX_MESSAGE, MAX_SGES, RqSize};
use crate::slot::{QpKey, SlotMemory, Slots};
use crate::sq::too_long;
use crate::track::Tag;
use crate::wqe::fragment;
use crate::wr::{RecvWr, Sge};

/// log2 of the quanta of the largest slot.
const MAX_SHIFT: u8 = 3;

/// A receive queue. `P` orders stores, `W` is the ring, `M` the slot table.
pub struct RecvQueue<P, W, M: SlotMemory> {
    platform: P,
    producer: Producer<W, M>,
    max_sge: u32,
    /// Quanta of a slot.
    slot: u64,
}

/// Without the platform, which every queue of a device has.
impl<P, W, M: SlotMemory> fmt::Debug for RecvQueue<P, W, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvQueue")
            .field("producer", &self.producer)
            .field("max_sge", &self.max_sge)
            .finish_non_exhaustive()
    }
}

/// A list that is being posted, receive by receive: [`RecvQueue::list`].
#[must_use = "receives are posted with RecvList::post"]
pub struct RecvList<'q, P: Barrier, W: DmaWords, M: SlotMemory> {
    queue: &'q mut RecvQueue<P, W, M>,
    /// Where the first receive goes.
    before: u64,
    /// The device ignores receives in this state, ERR.
    in_error: bool,
}

impl<P: Barrier, W: DmaWords, M: SlotMemory> RecvList<'_, P, W, M> {
    /// Posts the next receive. After an error the list can continue, or end: what was posted
    /// before stays posted.
    ///
    /// # Errors
    /// Why it cannot be posted; nothing of it is in the ring.
    #[inline]
    pub fn post(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        if self.queue.post_fast(wr).is_some() {
            return Ok(());
        }
        self.queue.post_slow(wr)
    }
}

impl<P: Barrier, W: DmaWords, M: SlotMemory> Drop for RecvList<'_, P, W, M> {
    #[inline]
    fn drop(&mut self) {
        if self.in_error {
            self.queue.producer.notify_posted_in_error(self.before);
        }
    }
}

impl<P: Barrier, W: DmaWords, M: SlotMemory> fmt::Debug for RecvList<'_, P, W, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvList")
            .field("before", &self.before)
            .finish_non_exhaustive()
    }
}

const MEMORY: PostError = PostError::Memory {
    queue: WorkQueue::Recv,
};

impl<P: Barrier, W: DmaWords, M: SlotMemory> RecvQueue<P, W, M> {
    /// The receive queue of an opened QP, on `ring`: zeroed memory of at least
    /// the quanta that the QP was opened with. `size` is that of
    /// [`RqSize::new`], for which the QP was opened, `max_sge` what the size was
    /// computed from.
    ///
    /// # Errors
    /// [`SizeError`]: more SGEs than a slot or the device takes, a ring or QP
    /// smaller than the size; `QP` when the QP does not exist.
    pub fn new(
        platform: P,
        ring: W,
        slots: Slots<M>,
        qp: QpKey,
        size: RqSize,
        max_sge: u32,
    ) -> Result<Self, SizeError> {
        if size.shift > MAX_SHIFT {
            return Err(SizeError {
                field: "shift of a receive slot",
                value: size.shift.into(),
                bound: Bound::AtMost(MAX_SHIFT.into()),
            });
        }
        // A slot of n quanta has room for 2n - 1 SGEs (data-path 1.6).
        let fits = (2u32 << size.shift).wrapping_sub(1).min(MAX_SGES);
        if max_sge > fits {
            return Err(SizeError {
                field: "max_recv_sge",
                value: max_sge.into(),
                bound: Bound::AtMost(fits.into()),
            });
        }
        let slot = 1u64 << size.shift;
        // Two slots, of which one stays free.
        let shape = Shape {
            least: slot.saturating_mul(2),
            reserve: slot,
            // Where a slot is more, or one SGE is too many, all are special.
            run: if slot == 1 && max_sge == 1 {
                u64::MAX
            } else {
                1
            },
        };
        let producer = Producer::new(ring, &slots, qp, WorkQueue::Recv, shape)?;
        let quanta = producer.capacity();
        if quanta != u64::from(size.quanta()) {
            return Err(SizeError {
                field: "receive queue quanta",
                value: size.quanta().into(),
                bound: Bound::Exactly(quanta),
            });
        }
        Ok(Self {
            platform,
            producer,
            max_sge,
            slot,
        })
    }

    /// Posts a list of receives.
    ///
    /// # Errors
    /// [`Refused`] at the first one that cannot be posted; those before it are
    /// posted.
    #[inline]
    pub fn post_recv(&mut self, list: &[RecvWr<'_>]) -> Result<(), Refused> {
        // Most lists are of one request, which the fast path takes.
        if let [wr] = list
            && self.producer.is_known_open()
            && self.post_fast(wr).is_some()
        {
            return Ok(());
        }
        self.post_batch(list)
    }

    /// Begins a list of receives, which are posted one by one: for receives that are not in a
    /// slice.
    ///
    /// # Errors
    /// [`PostError::WrongState`]. In ERR receives are taken, and completed by software.
    #[inline]
    pub fn list(&mut self) -> Result<RecvList<'_, P, W, M>, PostError> {
        let in_error = !self.producer.is_open(WorkQueue::Recv);
        if in_error {
            self.takes_in_error()?;
        }
        Ok(RecvList {
            before: self.producer.head(),
            in_error,
            queue: self,
        })
    }

    #[cold]
    #[inline(never)]
    fn takes_in_error(&self) -> Result<(), PostError> {
        match self.producer.state() {
            QpState::Err => Ok(()),
            state => Err(PostError::WrongState {
                queue: WorkQueue::Recv,
                state,
            }),
        }
    }

    /// Posts any list of receives.
    #[inline(never)]
    fn post_batch(&mut self, receives: &[RecvWr<'_>]) -> Result<(), Refused> {
        if receives.is_empty() {
            return Ok(());
        }
        let refused = |posted| move |error| Refused { posted, error };
        let mut list = self.list().map_err(refused(0))?;
        for (posted, wr) in receives.iter().enumerate() {
            list.post(wr).map_err(refused(posted))?;
        }
        Ok(())
    }

    /// Posts one receive: what [`post_recv`](Self::post_recv) does for a list of
    /// one, with a little less work.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn post_one(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        if self.producer.is_known_open() && self.post_fast(wr).is_some() {
            return Ok(());
        }
        self.post_one_slow(wr)
    }

    /// Posts a receive of one SGE if only its WQE has to be written. `None`, with nothing
    /// changed, for any other receive, and for an invalid one. For callers that have a receive in
    /// another form.
    #[inline(always)]
    pub fn post_one_sge(&mut self, wr_id: u64, sge: &Sge) -> Option<()> {
        if !self.producer.is_known_open() {
            return None;
        }
        self.post_sge(wr_id, sge)
    }

    /// Posts any receive.
    #[cold]
    #[inline(never)]
    fn post_one_slow(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        self.list()?.post(wr)
    }

    /// Restarts with an empty ring, as [`SendQueue::restart`](crate::SendQueue::restart).
    ///
    /// # Errors
    /// As [`new`](Self::new), with the queue unchanged.
    pub fn restart(&mut self, qp: QpKey) -> Result<(), SizeError> {
        self.producer.restart(qp)
    }

    /// Receives that can still be posted.
    #[must_use]
    pub fn free_slots(&mut self) -> u32 {
        let free = self.producer.refresh();
        (free >> self.slot.trailing_zeros()) as u32
    }

    /// The QP that it posts for.
    #[must_use]
    pub const fn key(&self) -> QpKey {
        self.producer.key()
    }

    /// Gives the ring back, once the QP is destroyed.
    pub fn into_ring(self) -> W {
        self.producer.into_ring()
    }

    /// Posts a receive of one SGE into a queue of slots of one quantum. `None`,
    /// with nothing changed, for any other, and for one that is not in order.
    #[inline(always)]
    fn post_fast(&mut self, wr: &RecvWr<'_>) -> Option<()> {
        let [sge] = wr.sges else {
            return None;
        };
        self.post_sge(wr.wr_id, sge)
    }

    /// The same, of a receive in pieces.
    #[inline(always)]
    fn post_sge(&mut self, wr_id: u64, sge: &Sge) -> Option<()> {
        let word = fragment::only(sge)?;
        if self.producer.needs_slow_path() {
            return None;
        }
        let ([q0, q1, q2, q3], valid) =
            self.producer
                .claim_one(WorkQueue::Recv, wr_id, Tag::receive(1))?;
        q0.set(sge.addr);
        q1.set(word | valid);
        q2.set(0);
        self.platform.to_device();
        q3.publish(valid);
        Some(())
    }

    /// Posts any receive.
    #[inline(never)]
    fn post_slow(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        let sges = wr.sges;
        if sges.len() > self.max_sge as usize {
            return Err(too_many(sges.len(), self.max_sge));
        }
        // Together they may be longer than any message: what is too much stays
        // unused.
        if sges.iter().any(|sge| sge.length > MAX_MESSAGE) {
            return Err(too_long(sges, 0));
        }
        if self.slot > self.producer.free() {
            self.require_slot()?;
        }
        let tag = Tag::receive(self.slot);
        let claim = self
            .producer
            .claim(self.slot, wr.wr_id, tag)
            .ok_or(MEMORY)?;
        let wqe = self.producer.quanta(claim.index).ok_or(MEMORY)?;
        let (first, rest) = wqe.split_first().ok_or(MEMORY)?;
        let [q0, q1, q2, q3] = first;
        fragment::write_first(q0, q1, sges.first(), claim.valid);
        if let Some(others) = sges.get(1..)
            && !others.is_empty()
        {
            fragment::write_rest(rest.as_flattened(), others, sges.len(), claim.valid);
        }
        q2.set(0);
        self.platform.to_device();
        q3.publish(fragment::count_field(sges.len()) | claim.valid);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn require_slot(&mut self) -> Result<(), PostError> {
        if self.producer.refresh() >= self.slot {
            return Ok(());
        }
        Err(PostError::Full {
            queue: WorkQueue::Recv,
            needed: 1,
            free: 0,
        })
    }
}

#[cold]
fn too_many(got: usize, limit: u32) -> PostError {
    PostError::TooManySges {
        queue: WorkQueue::Recv,
        got,
        limit,
    }
}
