//! What the parts of a device share: a table of slots of atomics.
//!
//! A QP's producer, the pollers of its two CQs, the event handlers and the
//! control path may all run on different threads. They share no lock and no
//! pointer, only slots in one piece of memory that the device cannot see:
//!
//! | word of a QP slot | written by | read by |
//! |---|---|---|
//! | identity (generation and id), shape, tracker addresses | control | all |
//! | state, cause of a failure | control, events | producer |
//! | SQ head, RQ head, trackers | producer | pollers |
//! | SQ tail / RQ tail, flush progress | the poller of the send / receive CQ | producer |
//!
//! * The producer writes trackers, then the head (release), then the WQE's header. A poller reads
//!   trackers and then moves the tail (release), once for several entries of a queue that it takes
//!   together; the producer reads the tail (acquire) before it uses a tracker again.
//! * A completion context is a [`QpKey`]: generation and id. A CQE whose context does not match its
//!   slot is counted and skipped, so destroying a QP needs no walk over a CQ.
//! * A slot is used again only after both CQs have passed the last CQE that the QP can have.
//!   Control raises the CQ's epoch after the QP is gone. The poller confirms an epoch when it found
//!   the ring empty after reading it, or has consumed as many entries as the ring holds. A CQ that
//!   nobody polls confirms none: its owner then walks over it at once
//!   ([`CompletionQueue::forget_gone`](crate::CompletionQueue::forget_gone)).
//!
//! [`Registry`] is the control path's side, [`Slots`] the handle that all others clone. Memory is
//! any [`SlotMemory`]: a `HostBuf`, a slice, a model checker's cells.

use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};

use e810_hal::{HostBuf, HostMem, HostView};
use e810_types::{QpState, QpType};

use crate::track;

mod channel;
mod cq;
mod elsewhere;
mod ending;
mod key;
pub(crate) mod list;
mod opening;
mod qp;
mod queue;
mod registry;
mod space;
mod view;

pub use channel::{ChannelKey, NextEvent, Unfinished};
pub(crate) use cq::CqSlot;
pub use elsewhere::QpChange;
pub use ending::DroppedWrs;
pub(crate) use key::id_in;
pub use key::{CqKey, QpKey};
pub(crate) use list::Node;
pub use qp::{Cause, Marked};
pub(crate) use qp::{NEVER_OPEN, QpSlot, takes};
pub(crate) use queue::QueueLine;
pub use registry::{Attention, Pending, QpShape, Registry};
pub(crate) use view::PollerView;

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
    /// Sets bits (acquire and release) and gives the value before.
    fn fetch_or(&self, bits: u64) -> u64;
    /// Keeps only `bits` (acquire and release) and gives the value before.
    fn fetch_and(&self, bits: u64) -> u64;
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
    fn fetch_or(&self, bits: u64) -> u64 {
        Self::fetch_or(self, bits, Ordering::AcqRel)
    }
    #[inline(always)]
    fn fetch_and(&self, bits: u64) -> u64 {
        Self::fetch_and(self, bits, Ordering::AcqRel)
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
    /// `L` lines of `N` words, their place checked once.
    type Lines<const N: usize, const L: usize>: Deref<Target = [[Self::Atom; N]; L]>;
    /// A run of groups of `N` words, likewise.
    type Groups<const N: usize>: Deref<Target = [[Self::Atom; N]]>;

    /// All words.
    fn atoms(&self) -> &[Self::Atom];
    /// The lines from word `start` on; `None` outside the memory.
    fn lines<const N: usize, const L: usize>(&self, start: usize) -> Option<Self::Lines<N, L>>;
    /// The `count` groups from word `start` on; `None` outside the memory.
    fn groups<const N: usize>(&self, start: usize, count: usize) -> Option<Self::Groups<N>>;
}

impl<P: HostMem + Clone> SlotMemory for HostBuf<P> {
    type Atom = AtomicU64;
    type Lines<const N: usize, const L: usize> = HostView<P, [[AtomicU64; N]; L]>;
    type Groups<const N: usize> = HostView<P, [[AtomicU64; N]]>;

    #[inline(always)]
    fn atoms(&self) -> &[AtomicU64] {
        self.words()
    }
    fn lines<const N: usize, const L: usize>(&self, start: usize) -> Option<Self::Lines<N, L>> {
        Self::lines(self, start)
    }
    fn groups<const N: usize>(&self, start: usize, count: usize) -> Option<Self::Groups<N>> {
        Self::groups(self, start, count)
    }
}

impl<'a, A: Atom> SlotMemory for &'a [A] {
    type Atom = A;
    type Lines<const N: usize, const L: usize> = &'a [[A; N]; L];
    type Groups<const N: usize> = &'a [[A; N]];

    #[inline(always)]
    fn atoms(&self) -> &[A] {
        self
    }
    fn lines<const N: usize, const L: usize>(&self, start: usize) -> Option<Self::Lines<N, L>> {
        self.get(start..)?.as_chunks().0.first_chunk()
    }
    fn groups<const N: usize>(&self, start: usize, count: usize) -> Option<Self::Groups<N>> {
        self.get(start..)?.as_chunks().0.get(..count)
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
    /// Completion channels `0..channels`.
    pub channels: u32,
    /// 64-bit words for trackers of all QPs together; what one QP needs says
    /// [`QpShape::tracker_words`]. Rounded up to whole blocks.
    pub tracker_words: u32,
}

const MAX_IDS: u32 = 1 << 24;

/// No key and no guard: no context that a device can write compares equal.
const FREE: u64 = u64::MAX;

impl Layout {
    /// 64-bit words of memory that the table needs.
    #[must_use]
    pub const fn words(&self) -> usize {
        let channels = (self.channels as usize).saturating_mul(self.channel_words());
        self.channel_base().saturating_add(channels)
    }

    // In this order: QP slots, CQ slots, tracker space, each in whole cache lines,
    // the head of the list of QPs that events have marked, and channels. A
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

    /// The first word of the first tracker there is room for.
    const fn tracker_base(&self) -> usize {
        self.space_base()
            .saturating_add(space::bitmap_words(self.tracker_words))
    }

    const fn attention(&self) -> usize {
        self.space_base()
            .saturating_add(space::words(self.tracker_words))
    }

    /// Set when software signalled an event and no caller could wake its waiter.
    const fn sw_event_flag(&self) -> usize {
        self.attention().saturating_add(1)
    }

    const fn channel_base(&self) -> usize {
        self.attention().saturating_add(channel::LINE)
    }

    const fn channel_words(&self) -> usize {
        channel::words(self.cqs)
    }
}

/// The outcome of an event of a CQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use = "an event is acknowledged unless its CQ is gone"]
pub enum NotifyResult {
    /// The poller will see it, through this channel if it has one: waiters of that channel are to
    /// be woken.
    Delivered {
        /// Index of the channel.
        channel: Option<u32>,
    },
    /// Nobody had asked: another event has already answered the request.
    Spurious,
    /// There is no such CQ (any more).
    NoSuchCq,
}

impl NotifyResult {
    /// Whether the poller will see it.
    #[must_use]
    pub const fn is_delivered(self) -> bool {
        matches!(self, Self::Delivered { .. })
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

    /// A QP's slot for its producer, looked up once.
    pub(crate) fn qp_lines(&self, id: u32) -> Option<QpLines<M>> {
        if id >= self.layout.qps {
            return None;
        }
        self.memory.lines((id as usize).wrapping_mul(qp::WORDS))
    }

    /// A CQ's slot for its poller, looked up once.
    pub(crate) fn cq_lines(&self, id: u32) -> Option<CqLines<M>> {
        if id >= self.layout.cqs {
            return None;
        }
        let start = (id as usize).wrapping_mul(cq::WORDS);
        self.memory.lines(self.layout.cq_base().wrapping_add(start))
    }

    /// The trackers of a work queue for its producer, looked up once.
    pub(crate) fn queue_trackers(
        &self,
        line: QueueLine<'_, M::Atom>,
    ) -> Option<M::Groups<{ track::WORDS }>> {
        let first = line.trackers().checked_mul(track::WORDS)?;
        let start = self.layout.tracker_base().checked_add(first)?;
        let count = (line.mask() as usize).checked_add(1)?;
        self.memory.groups(start, count)
    }

    /// All QP slots, for a poller.
    pub(crate) fn all_qps(&self) -> Option<M::Groups<{ qp::WORDS }>> {
        self.memory.groups(0, self.layout.qps as usize)
    }

    /// All trackers, for a poller.
    pub(crate) fn all_trackers(&self) -> Option<M::Groups<{ track::WORDS }>> {
        let start = self.layout.tracker_base();
        let words = self.layout.attention().checked_sub(start)?;
        self.memory.groups(start, words.wrapping_div(track::WORDS))
    }

    /// Slot of a QP id.
    pub(crate) fn qp(&self, id: u32) -> Option<QpSlot<'_, M::Atom>> {
        if id >= self.layout.qps {
            return None;
        }
        let start = (id as usize).wrapping_mul(qp::WORDS);
        let (lines, _) = self.atoms().get(start..)?.as_chunks();
        lines.first_chunk().map(QpSlot::new)
    }

    /// Slot of a CQ id.
    pub(crate) fn cq(&self, id: u32) -> Option<CqSlot<'_, M::Atom>> {
        if id >= self.layout.cqs {
            return None;
        }
        let start = (id as usize).wrapping_mul(cq::WORDS);
        let start = self.layout.cq_base().wrapping_add(start);
        let (lines, _) = self.atoms().get(start..)?.as_chunks();
        lines.first_chunk().map(CqSlot::new)
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

    /// Key of the QP that lives under this id.
    #[must_use]
    pub fn qp_key(&self, id: u32) -> Option<QpKey> {
        self.qp(id)?.key()
    }

    /// Key of the CQ that lives under this id.
    #[must_use]
    pub fn cq_key(&self, id: u32) -> Option<CqKey> {
        self.cq(id)?.key()
    }

    /// How many objects the table has.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// State of a QP; `None` when it is gone.
    #[must_use]
    pub fn qp_state(&self, key: QpKey) -> Option<QpState> {
        self.live_qp(key).map(|slot| slot.state())
    }

    /// Kind of service of a QP, as far as slots tell them apart: RC or UD; `None`
    /// when it is gone.
    #[must_use]
    pub fn qp_type(&self, key: QpKey) -> Option<QpType> {
        let slot = self.live_qp(key)?;
        Some(if slot.is_datagram() {
            QpType::Ud
        } else {
            QpType::Rc
        })
    }

    /// Whether a QP is in SQD and the device has not said yet that its send queue
    /// is drained.
    #[must_use]
    pub fn is_draining(&self, key: QpKey) -> bool {
        self.live_qp(key).is_some_and(|slot| slot.is_draining())
    }

    /// An event handler reports that the device has drained a QP's send queue (AE 0x0900).
    /// Returns whether its owner asked to be notified; `None` when nothing was being drained, or
    /// the QP is gone.
    pub fn mark_drained(&self, key: QpKey) -> Option<bool> {
        self.live_qp(key)?.drained(key)
    }

    /// An event handler reports that the device stopped a QP. Moves it to ERR (a datagram QP
    /// whose send failed to SQE), keeps the cause of the first failure, and puts the QP on the
    /// list that [`Registry::take_attention`] empties. Waits for nothing; callable from an
    /// interrupt handler.
    pub fn mark_failed(&self, key: QpKey, cause: Cause) -> Marked {
        let Some(slot) = self.live_qp(key) else {
            return Marked::Unknown;
        };
        let marked = slot.mark(key, cause);
        if matches!(marked, Marked::Now | Marked::Ended)
            && let Some(head) = self.attention()
        {
            list::push(head, slot.attention_link(), Node::qp(key.id()));
        }
        marked
    }

    /// The cause with which a QP was marked as failed; `None` when it was not, or is gone.
    #[must_use]
    pub fn failure(&self, key: QpKey) -> Option<Cause> {
        self.live_qp(key)?.failure()
    }

    /// An event handler reports that a CEQE came for a CQ. Its poller's
    /// [`CompletionQueue::take_event`](crate::CompletionQueue::take_event) then returns that, if
    /// the poller has asked for an event.
    pub fn signal_cq(&self, key: CqKey) -> NotifyResult {
        self.signalled(key, self.live_cq(key).and_then(|slot| slot.signal(key)))
    }

    /// Control reports that there is something to complete which the device will not report
    /// ([`Registry::sweep`]); otherwise as [`signal_cq`](Self::signal_cq).
    pub fn signal_by_software(&self, key: CqKey) -> NotifyResult {
        let notified = self.live_cq(key);
        self.signalled(key, notified.and_then(|slot| slot.signal_by_software(key)))
    }

    /// Runs `tell` unless the QP is gone or hidden; its destruction waits until
    /// `tell` has returned ([`Slots::is_notifying`]).
    pub fn notify_qp(&self, qp: QpKey, tell: impl FnOnce()) -> bool {
        let Some(slot) = self.live_qp(qp).filter(|slot| slot.hold(qp)) else {
            return false;
        };
        tell();
        slot.release_hold();
        true
    }

    /// Whether a handler is reporting something about a QP; for control, after it was hidden.
    #[must_use]
    pub fn is_notifying(&self, qp: QpKey) -> bool {
        self.qp(qp.id()).is_some_and(|slot| slot.holds() > 0)
    }

    /// An event handler reports that a CQ is in error: it overflowed, or the device could not
    /// write to it (AE 0x0203). `false` when the CQ is gone.
    pub fn mark_cq_failed(&self, key: CqKey) -> bool {
        self.live_cq(key).is_some_and(|slot| slot.fail(key))
    }
}

/// A QP's slot and a CQ's slot, as their producers and pollers keep them.
pub(crate) type QpLines<M> = <M as SlotMemory>::Lines<{ queue::LINE }, { qp::LINES }>;
pub(crate) type CqLines<M> = <M as SlotMemory>::Lines<{ cq::LINE }, { cq::LINES }>;
