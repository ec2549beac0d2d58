//! What the parts of a device share: a table of slots of atomics.
//!
//! A QP's poster, the pollers of its two CQs, the event handlers and the
//! control path may all run on different threads. They share no lock and no
//! pointer, only slots in one piece of memory that the device cannot see:
//!
//! | word of a QP slot | written by | read by |
//! |---|---|---|
//! | identity (generation and id), shape, tracker addresses | control | all |
//! | state, cause of a failure | control, events | poster |
//! | SQ head, RQ head, trackers | poster | pollers |
//! | SQ tail / RQ tail, flush progress | the poller of the send / receive CQ | poster |
//!
//! * The poster writes trackers, then the head (release), then the WQE's header.
//!   A poller reads trackers and then moves the tail (release); the poster reads
//!   the tail (acquire) before it uses a tracker again.
//! * A completion context is a [`QpKey`]: generation and id. A CQE whose context
//!   does not match its slot is counted and skipped, so destroying a QP needs no
//!   walk over a CQ.
//! * A slot is used again only after both CQs have passed the last CQE the QP
//!   can have: control raises the CQ's epoch after the QP is gone, and the poller
//!   confirms an epoch when it found the ring empty after reading it, or has
//!   consumed as many entries as the ring holds.
//!
//! [`Registry`] is the control path's side, [`Slots`] the handle everybody else
//! clones. Memory is any [`SlotMemory`]: a `HostBuf`, a slice, a model
//! checker's cells.

use core::sync::atomic::{AtomicU64, Ordering};

use e810_hal::{HostBuf, HostMem};

use crate::error::Queue;
use crate::state::QpState;

mod cq;
mod key;
pub(crate) mod list;
mod qp;
mod queue;
mod registry;
mod space;

pub(crate) use cq::CqSlot;
pub use key::{CqKey, QpKey};
pub(crate) use list::Node;
pub(crate) use qp::QpSlot;
pub use qp::{Cause, Marked};
pub(crate) use queue::QueueLine;
pub use registry::{Attention, Pending, QpShape, Registry};

/// A 64-bit atomic word of a slot. Implemented by `AtomicU64`; a model checker
/// brings its own.
pub trait Atom {
    /// Loads.
    fn load(&self, order: Ordering) -> u64;
    /// Stores.
    fn store(&self, value: u64, order: Ordering);
    /// Exchanges (acquire and release).
    fn swap(&self, value: u64) -> u64;
    /// Adds, wrapping (acquire and release), and gives the value before.
    fn fetch_add(&self, value: u64) -> u64;
    /// Stores `new` if the word is `current` (acquire and release), else gives
    /// what it is (acquire).
    ///
    /// # Errors
    /// The word as it is.
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64>;
}

impl Atom for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        Self::load(self, order)
    }
    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        Self::store(self, value, order);
    }
    #[inline(always)]
    fn swap(&self, value: u64) -> u64 {
        Self::swap(self, value, Ordering::AcqRel)
    }
    #[inline(always)]
    fn fetch_add(&self, value: u64) -> u64 {
        Self::fetch_add(self, value, Ordering::AcqRel)
    }
    #[inline(always)]
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        Self::compare_exchange(self, current, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

/// Memory of a slot table: cloning gives another handle on the same words.
pub trait SlotMemory: Clone {
    /// The kind of word.
    type Atom: Atom;
    /// All words.
    fn atoms(&self) -> &[Self::Atom];
}

impl<P: HostMem + Clone> SlotMemory for HostBuf<P> {
    type Atom = AtomicU64;
    #[inline(always)]
    fn atoms(&self) -> &[AtomicU64] {
        self.words()
    }
}

impl<A: Atom> SlotMemory for &[A] {
    type Atom = A;
    #[inline(always)]
    fn atoms(&self) -> &[A] {
        self
    }
}

/// How many objects a slot table has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Layout {
    /// CQ ids `0..cqs`, at most 2^24.
    pub cqs: u32,
    /// QP ids `0..qps`, at most 2^24.
    pub qps: u32,
    /// 64-bit words for trackers of all QPs together; what one QP needs says
    /// [`QpShape::tracker_words`]. Rounded up to whole blocks.
    pub tracker_words: u32,
}

const MAX_IDS: u32 = 1 << 24;

/// No key and no guard: no context that a device can write is compared equal.
const FREE: u64 = u64::MAX;

impl Layout {
    /// 64-bit words of memory that the table needs.
    #[must_use]
    pub const fn words(&self) -> usize {
        self.attention().saturating_add(1)
    }

    // In this order: QP slots, CQ slots, tracker space, each in whole pairs of
    // words, and the head of the list of QPs that events have marked. A
    // `HostBuf` has a word of its own in front, so when its memory starts on a
    // cache line, words 0 to 6 of each line of 8 are in one: those that slots
    // use.

    const fn cq_base(&self) -> usize {
        (self.qps as usize).saturating_mul(qp::WORDS)
    }

    const fn space_base(&self) -> usize {
        self.cq_base()
            .saturating_add((self.cqs as usize).saturating_mul(cq::WORDS))
    }

    const fn attention(&self) -> usize {
        self.space_base()
            .saturating_add(space::words(self.tracker_words))
    }
}

/// Handle on a slot table. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Slots<M: SlotMemory> {
    memory: M,
    layout: Layout,
}

impl<M: SlotMemory> Slots<M> {
    /// Every word; the indexes below are into these.
    #[inline(always)]
    pub(crate) fn atoms(&self) -> &[M::Atom] {
        self.memory.atoms()
    }

    /// Index of the word in which the poster says how far a queue is filled.
    pub(crate) fn head_word(&self, id: u32, queue: Queue) -> usize {
        let slot = (id as usize).wrapping_mul(qp::WORDS);
        slot.wrapping_add(qp::head_at(queue))
    }

    /// Index of the word with a QP's state.
    pub(crate) fn state_word(&self, id: u32) -> usize {
        (id as usize)
            .wrapping_mul(qp::WORDS)
            .wrapping_add(qp::STATE)
    }

    /// Whether the state in that word is one in which `queue` takes requests.
    #[inline(always)]
    pub(crate) fn takes(&self, state_word: usize, queue: Queue) -> bool {
        match self.atoms().get(state_word) {
            Some(word) => qp::takes(word.load(Ordering::Acquire), queue),
            None => false,
        }
    }

    /// Index of the word with a CQ's epoch.
    pub(crate) fn epoch_word(&self, id: u32) -> usize {
        let slot = (id as usize).wrapping_mul(cq::WORDS);
        self.layout
            .cq_base()
            .wrapping_add(slot)
            .wrapping_add(cq::EPOCH)
    }

    /// The epoch in that word: what the CQ's poller has to notice at latest.
    #[inline(always)]
    pub(crate) fn epoch_at(&self, epoch_word: usize) -> u64 {
        let epoch = self.atoms().get(epoch_word);
        epoch.map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// All trackers.
    #[inline(always)]
    pub(crate) fn trackers(&self) -> &[[M::Atom; 2]] {
        self.atoms().as_chunks().0
    }

    /// Everything a poller looks up, with the bounds checked once. `None` when
    /// the memory is smaller than the table.
    #[inline(always)]
    pub(crate) fn tables(&self) -> Option<Tables<'_, M::Atom>> {
        let (lines, _) = self.atoms().as_chunks::<{ queue::LINE }>();
        let (slots, _) = lines.as_chunks::<{ qp::LINES }>();
        Some(Tables {
            slots: slots.get(..self.layout.qps as usize)?,
            trackers: self.trackers(),
        })
    }

    /// Slot of a QP id.
    pub(crate) fn qp(&self, id: u32) -> Option<QpSlot<'_, M::Atom>> {
        self.tables()?.qp(id)
    }

    /// Slot of a CQ id.
    pub(crate) fn cq(&self, id: u32) -> Option<CqSlot<'_, M::Atom>> {
        if id >= self.layout.cqs {
            return None;
        }
        let start = (id as usize).wrapping_mul(cq::WORDS);
        CqSlot::at(self.atoms(), self.layout.cq_base().wrapping_add(start))
    }

    /// Head of the attention list.
    fn attention(&self) -> Option<&M::Atom> {
        self.atoms().get(self.layout.attention())
    }

    /// Slot of a live QP.
    pub(crate) fn live_qp(&self, key: QpKey) -> Option<QpSlot<'_, M::Atom>> {
        self.qp(key.id()).filter(|slot| slot.is(key))
    }

    /// Slot of a live CQ.
    pub(crate) fn live_cq(&self, key: CqKey) -> Option<CqSlot<'_, M::Atom>> {
        self.cq(key.id()).filter(|slot| slot.is(key))
    }

    /// State of a QP; `None` when it is gone.
    #[must_use]
    pub fn qp_state(&self, key: QpKey) -> Option<QpState> {
        self.live_qp(key).map(|slot| slot.state())
    }

    /// An event handler's word that the device stopped a QP: moves it to ERR,
    /// keeps the cause of the first failure, and puts the QP on the list that
    /// [`Registry::take_attention`] empties. Waits for nothing; callable from
    /// an interrupt handler.
    pub fn mark_failed(&self, key: QpKey, cause: Cause) -> Marked {
        let Some(slot) = self.live_qp(key) else {
            return Marked::Unknown;
        };
        let marked = slot.mark(key, cause);
        if marked == Marked::Now
            && let Some(head) = self.attention()
        {
            list::push(head, slot.attention_link(), Node::qp(key.id()));
        }
        marked
    }

    /// An event handler's word that a CEQE came for a CQ: its poller's
    /// [`CompletionQueue::take_event`](crate::CompletionQueue::take_event) will
    /// say so. `false` when the CQ is gone.
    pub fn signal_cq(&self, key: CqKey) -> bool {
        self.live_cq(key).map(|slot| slot.signal()).is_some()
    }

    /// An event handler's word that a CQ is in error: it overflowed, or the
    /// device could not write to it (AE 0x0203). `false` when the CQ is gone.
    pub fn mark_cq_failed(&self, key: CqKey) -> bool {
        self.live_cq(key).map(|slot| slot.fail()).is_some()
    }
}

/// Poster: entries before `head` are in the ring, their trackers written
/// (release).
#[inline(always)]
pub(crate) fn publish<A: Atom>(head_word: &A, head: u64) {
    head_word.store(head, Ordering::Release);
}

/// The parts of a slot table that are indexed by numbers from CQEs and rings.
#[derive(Debug)]
pub(crate) struct Tables<'a, A> {
    slots: &'a [[[A; queue::LINE]; qp::LINES]],
    /// Trackers, a pair of words each.
    pub(crate) trackers: &'a [[A; 2]],
}

impl<A> Clone for Tables<'_, A> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<A> Copy for Tables<'_, A> {}

impl<'a, A: Atom> Tables<'a, A> {
    /// Slot of a QP id.
    #[inline(always)]
    pub(crate) fn qp(&self, id: u32) -> Option<QpSlot<'a, A>> {
        self.slots.get(id as usize).map(QpSlot::new)
    }
}
