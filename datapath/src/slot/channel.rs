//! Completion channels: which CQs have events that nobody took.
//!
//! A channel is a set of bits, one for each CQ id. A thread that signals an event first counts
//! the event in the CQ's slot, then sets the bit. A thread that takes one clears the bit, then
//! counts the event as handed out, and sets the bit again if there are more. A bit that is left
//! over from a CQ that is gone leads to a slot that has no event of this channel: nothing that
//! was destroyed is ever delivered.

use core::sync::atomic::Ordering;

use e810_types::WorkQueue;

use super::cq::Listener;
use super::{Atom, CqKey, NotifyResult, QpLines, QpSlot, Registry, SlotMemory, Slots};
use crate::error::SlotError;

/// Words in front of the bits, a cache line.
pub(super) const LINE: usize = 8;
/// [0] open, [1] closed: its waiters leave, [63:32] generation.
const STATE: usize = 0;
/// CQs on the channel; control.
const REFERENCES: usize = 1;
/// Where the last event was found, so that each CQ gets its turn.
const NEXT: usize = 2;

const OPEN: u64 = 1;
const GENERATION_SHIFT: u32 = 32;

/// Words of a channel.
pub(super) const fn words(cqs: u32) -> usize {
    LINE.saturating_add(cqs.div_ceil(u64::BITS) as usize)
}

/// Name of a channel that outlives it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ChannelKey {
    index: u32,
    generation: u32,
}

impl ChannelKey {
    /// Its index in the table.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    const fn state(self) -> u64 {
        (self.generation as u64) << GENERATION_SHIFT | OPEN
    }
}

/// The result of looking for an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum NextEvent {
    /// An event of this CQ, which is to be acknowledged.
    Event(CqKey),
    /// Nothing.
    Nothing,
    /// The channel is closed.
    Closed,
}

/// View of a channel.
struct ChannelSlot<'a, A> {
    line: &'a [A; LINE],
    bits: &'a [A],
}

impl<M: SlotMemory> Slots<M> {
    fn channel(&self, index: u32) -> Option<ChannelSlot<'_, M::Atom>> {
        if index >= self.layout.channels {
            return None;
        }
        let words = self.layout.channel_words();
        let start = self.layout.channel_base();
        let start = start.checked_add((index as usize).checked_mul(words)?)?;
        let all = self.atoms().get(start..)?.get(..words)?;
        let (line, bits) = all.split_first_chunk()?;
        Some(ChannelSlot { line, bits })
    }

    fn open_channel(&self, key: ChannelKey) -> Option<ChannelSlot<'_, M::Atom>> {
        let slot = self.channel(key.index)?;
        (slot.line[STATE].load(Ordering::Acquire) == key.state()).then_some(slot)
    }

    /// Finishes an event: its channel learns of it.
    pub(super) fn signalled(&self, key: CqKey, notified: Option<bool>) -> NotifyResult {
        match notified {
            None => NotifyResult::NoSuchCq,
            Some(false) => NotifyResult::Spurious,
            Some(true) => {
                let channel = self.live_cq(key).and_then(|slot| slot.channel());
                if let Some(slot) = channel.and_then(|index| self.channel(index)) {
                    slot.set(key.id());
                }
                NotifyResult::Delivered { channel }
            }
        }
    }

    /// A producer reports that it posted to a queue in error: its CQ is notified, and control is
    /// asked to wake the waiter ([`Registry::take_waiting`]).
    pub(crate) fn posted_in_error(&self, qp: &QpLines<M>, queue: WorkQueue) {
        let [send, recv] = QpSlot::new(qp).awaited();
        let (cq, _) = match queue {
            WorkQueue::Send => send,
            WorkQueue::Recv => recv,
        };
        let key = CqKey::from_bits(cq);
        // Before the signal: the poll that follows it looks for what was posted.
        if let Some(slot) = key.and_then(|key| self.cq(key.id())) {
            slot.note_posted_in_error();
        }
        let notified = key.map(|cq| self.signal_by_software(cq));
        if notified.is_some_and(NotifyResult::is_delivered)
            && let Some(sw_event_flag) = self.atoms().get(self.layout.sw_event_flag())
        {
            sw_event_flag.store(1, Ordering::Release);
        }
    }

    /// Takes one event of a channel: from any of its CQs, each in its turn. May be called from
    /// any thread.
    #[must_use]
    pub fn take_event(&self, channel: ChannelKey) -> NextEvent {
        let Some(slot) = self.open_channel(channel) else {
            return NextEvent::Closed;
        };
        let first = slot.line[NEXT].load(Ordering::Relaxed) as usize;
        // At most once around, whatever comes meanwhile.
        for id in slot.from(first) {
            if !slot.clear(id) {
                continue;
            }
            let Some(cq) = self.cq(id).filter(|cq| cq.channel() == Some(channel.index)) else {
                continue;
            };
            let Some(key) = cq.key() else {
                continue;
            };
            if let Some(more) = cq.take(key) {
                if more {
                    slot.set(id);
                }
                slot.line[NEXT].store(u64::from(id).wrapping_add(1), Ordering::Relaxed);
                return NextEvent::Event(key);
            }
        }
        NextEvent::Nothing
    }

    /// Whether a channel has an event, or is closed: a waiter has something to do.
    #[must_use]
    pub fn has_event(&self, channel: ChannelKey) -> bool {
        let slot = self.open_channel(channel);
        slot.is_none_or(|slot| slot.has_event())
    }

    /// Acknowledges events of a CQ that were taken.
    ///
    /// # Errors
    /// [`SlotError::NotTaken`] for more than were, [`SlotError::Gone`].
    pub fn acknowledge_events(&self, cq: CqKey, events: u32) -> Result<(), SlotError> {
        let slot = self.live_cq(cq).ok_or(super::registry::gone_cq(cq))?;
        if slot.acknowledge(events) {
            Ok(())
        } else {
            Err(SlotError::NotTaken {
                id: cq.id(),
                events,
                taken: slot.unacknowledged(),
            })
        }
    }

    /// The program's own word of a CQ; `None` when it is gone.
    #[must_use]
    pub fn cq_user_context(&self, cq: CqKey) -> Option<u64> {
        self.live_cq(cq).map(|slot| slot.user_context())
    }

    /// Runs `tell` unless the CQ is gone or being destroyed; its destruction waits until `tell`
    /// has returned.
    pub fn notify_cq(&self, cq: CqKey, tell: impl FnOnce()) -> bool {
        let Some(slot) = self.live_cq(cq).filter(|slot| slot.hold(cq)) else {
            return false;
        };
        tell();
        slot.release();
        true
    }
}

impl<A: Atom> ChannelSlot<'_, A> {
    fn has_event(&self) -> bool {
        let mut words = self.bits.iter();
        words.any(|word| word.load(Ordering::Acquire) != 0)
    }

    fn word(&self, id: u32) -> Option<(&A, u64)> {
        let word = self.bits.get((id / u64::BITS) as usize)?;
        Some((word, 1 << (id % u64::BITS)))
    }

    fn set(&self, id: u32) {
        if let Some((word, bit)) = self.word(id) {
            word.fetch_or(bit);
        }
    }

    /// Clears a bit; false when it was not set (any more).
    fn clear(&self, id: u32) -> bool {
        self.word(id)
            .is_some_and(|(word, bit)| word.fetch_and(!bit) & bit != 0)
    }

    /// The ids whose bits are set, from `first` on and once around, as they are
    /// found.
    fn from(&self, first: usize) -> impl Iterator<Item = u32> {
        let bits = u64::BITS as usize;
        let (begin, offset) = (first / bits, first % bits);
        let count = self.bits.len();
        // The first word comes twice: its upper part first, its lower part last.
        let places = (0..count.wrapping_add(1)).map(move |step| {
            let index = begin.wrapping_add(step).checked_rem(count).unwrap_or(0);
            let mask = match step {
                0 => u64::MAX << offset,
                last if last == count => !(u64::MAX << offset),
                _ => u64::MAX,
            };
            (index, mask)
        });
        places.flat_map(move |(index, mask)| {
            let word = self
                .bits
                .get(index)
                .map_or(0, |word| word.load(Ordering::Acquire));
            let base = (index as u32).wrapping_mul(u64::BITS);
            Ones(word & mask).map(move |bit| base.wrapping_add(bit))
        })
    }
}

/// The bits of a word that are set.
struct Ones(u64);

impl Iterator for Ones {
    type Item = u32;
    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        Some(bit)
    }
}

impl<M: SlotMemory> Registry<M> {
    /// Opens a channel; `None` when all are.
    pub fn open_channel(&mut self) -> Option<ChannelKey> {
        for index in 0..self.slots.layout.channels {
            let slot = self.slots.channel(index)?;
            let state = slot.line[STATE].load(Ordering::Relaxed);
            if state & OPEN != 0 {
                continue;
            }
            for word in slot.bits {
                word.store(0, Ordering::Relaxed);
            }
            slot.line[REFERENCES].store(0, Ordering::Relaxed);
            slot.line[NEXT].store(0, Ordering::Relaxed);
            let generation = ((state >> GENERATION_SHIFT) as u32).wrapping_add(1);
            let key = ChannelKey { index, generation };
            slot.line[STATE].store(key.state(), Ordering::Release);
            return Some(key);
        }
        None
    }

    /// If a producer has reported an event since the last call, calls `wake` with the index of
    /// each channel that has an event.
    pub fn take_waiting(&mut self, mut wake: impl FnMut(u32)) {
        let sw_event_flag = self.slots.atoms().get(self.slots.layout.sw_event_flag());
        if sw_event_flag.is_none_or(|sw_event_flag| {
            sw_event_flag.load(Ordering::Relaxed) == 0 || sw_event_flag.swap(0) == 0
        }) {
            return;
        }
        for index in 0..self.slots.layout.channels {
            let slot = self.slots.channel(index);
            if slot.is_some_and(|slot| slot.has_event()) {
                wake(index);
            }
        }
    }

    /// Closes a channel: its waiters are to be woken, and leave.
    ///
    /// # Errors
    /// [`SlotError::ChannelInUse`] while CQs are on it, [`SlotError::NoChannel`]
    /// when it is closed already.
    pub fn close_channel(&mut self, key: ChannelKey) -> Result<(), SlotError> {
        let slot = self.channel_of(key)?;
        let cqs = slot.line[REFERENCES].load(Ordering::Relaxed);
        if cqs > 0 {
            let channel = key.index;
            return Err(SlotError::ChannelInUse { channel, cqs });
        }
        slot.line[STATE].store(key.state() & !OPEN, Ordering::Release);
        Ok(())
    }

    /// Opens CQ `id` on a channel; otherwise as [`open_cq`](Self::open_cq).
    ///
    /// # Errors
    /// As there, and [`SlotError::NoChannel`].
    pub fn open_cq_on(&mut self, id: u32, channel: ChannelKey) -> Result<CqKey, SlotError> {
        let slot = self.free_cq(id)?;
        let key = slot.next_key(id);
        self.open_cq_as(key, Some(channel))?;
        Ok(key)
    }

    /// Notes a word of the program's own for a CQ, before anybody else knows the CQ;
    /// 0 until then.
    ///
    /// # Errors
    /// [`SlotError::Gone`].
    pub fn set_cq_user_context(&mut self, key: CqKey, context: u64) -> Result<(), SlotError> {
        let slot = self.slots.live_cq(key);
        slot.ok_or(super::registry::gone_cq(key))?
            .set_user_context(context);
        Ok(())
    }

    /// A CQ is about to be destroyed: hands out no more of its events. [`Registry::close_cq`]
    /// follows once the device no longer knows it, or [`Registry::keep_cq`]. Returns what has to
    /// be waited for: call it again until that is nothing.
    ///
    /// # Errors
    /// [`SlotError::Gone`].
    pub fn begin_close_cq(&mut self, key: CqKey) -> Result<Unfinished, SlotError> {
        let slot = self
            .slots
            .live_cq(key)
            .ok_or(super::registry::gone_cq(key))?;
        slot.begin_close();
        Ok(Unfinished {
            unacknowledged: slot.unacknowledged(),
            handlers: slot.holds(),
        })
    }

    /// A CQ that was about to be destroyed lives on; events that were held back meanwhile are
    /// handed out.
    pub fn keep_cq(&mut self, key: CqKey) {
        let Some(slot) = self.slots.live_cq(key) else {
            return;
        };
        slot.cancel_close();
        if let Some(channel) = slot.channel().and_then(|index| self.slots.channel(index)) {
            channel.set(key.id());
        }
    }

    /// A CQ whose slot is free comes to a channel.
    pub(super) fn join_channel(&self, key: ChannelKey, cq: u32) -> Result<Listener, SlotError> {
        let channel = self.channel_of(key)?;
        self.free_cq(cq)?;
        channel.line[REFERENCES].fetch_add(1);
        Ok(Listener::Channel(key.index))
    }

    /// A CQ leaves its channel.
    pub(super) fn leave_channel(&self, index: u32, id: u32) {
        if let Some(channel) = self.slots.channel(index) {
            channel.line[REFERENCES].fetch_add(u64::MAX);
            channel.clear(id);
        }
    }

    fn channel_of(&self, key: ChannelKey) -> Result<ChannelSlot<'_, M::Atom>, SlotError> {
        let gone = SlotError::NoChannel { channel: key.index };
        self.slots.open_channel(key).ok_or(gone)
    }
}

/// What the destruction of a CQ waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Unfinished {
    /// Events taken from its channel and not acknowledged.
    pub unacknowledged: u32,
    /// Event handlers that are telling something about it.
    pub handlers: u64,
}

impl Unfinished {
    /// Whether there is nothing to wait for.
    #[must_use]
    pub const fn is_nothing(self) -> bool {
        self.unacknowledged == 0 && self.handlers == 0
    }
}
