//! The life of a slot: taken, with messages to send and events to tell, over, and free again.

use e810_types::Ns;

use super::config::LONGEST;
use super::slot::due;
use super::tables::NONE;
use super::{Machine, SOURCES, State, time};
use crate::GID;

impl Machine<'_> {
    /// Takes a free slot; all but its names is empty.
    pub(super) fn allocate(&mut self) -> Option<u32> {
        let index = self.free.pop()?;
        let (secret, bits) = (self.secret, self.index_bits);
        let slot = self.slot_mut(index)?;
        let mut generation = slot.generation;
        let comm_id = loop {
            generation = generation.wrapping_add(1);
            let number = generation.checked_shl(bits).unwrap_or(0) | index;
            match secret.permute(number) {
                0 => {}
                id => break id,
            }
        };
        slot.clear();
        slot.comm_id = comm_id;
        slot.generation = generation;
        Some(index)
    }

    /// Frees the slot of a connection that has ended and that nobody owns, so that a program that
    /// connects and disconnects all the time does not fill the table. The search goes round and
    /// round, so a slot is rarely freed soon after its end, when the network may still have a message
    /// of it.
    pub(super) fn end_a_wait(&mut self) {
        if self.none_waits {
            return;
        }
        let count = self.slots.0.len() as u32;
        let mut is_there_one = false;
        for _ in 0..count {
            self.hand = self.hand.wrapping_add(1).checked_rem(count).unwrap_or(0);
            let index = self.hand;
            let Some(slot) = self.slot(index) else {
                continue;
            };
            if slot.is_owned || !matches!(slot.state, State::TimeWait | State::DreqSent) {
                continue;
            }
            is_there_one = true;
            // What is to be sent is sent first.
            if slot.due == 0 && !slot.is_in_sends && !slot.is_in_news {
                self.end(index);
                self.free_if_unused(index);
                return;
            }
        }
        self.none_waits = !is_there_one;
    }

    /// Frees a slot that is over, if nobody needs it any more.
    pub(super) fn free_if_unused(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let is_used = slot.state != State::Idle
            || slot.is_owned
            || slot.due != 0
            || slot.is_in_sends
            || slot.news != 0
            || slot.is_in_news;
        if is_used || slot.comm_id == 0 {
            return;
        }
        slot.comm_id = 0;
        self.free.push(index);
    }

    /// Asks for messages to be sent.
    pub(super) fn send(&mut self, index: u32, due: u8) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        slot.due |= due;
        if !slot.is_in_sends {
            slot.is_in_sends = true;
            self.sends.push(index);
        }
    }

    /// Tells the owner something, if there is one.
    pub(super) fn tell(&mut self, index: u32, what: u8) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if !slot.is_owned {
            return;
        }
        slot.news |= what;
        if !slot.is_in_news {
            slot.is_in_news = true;
            self.fresh.push(index);
        }
    }

    pub(super) fn set_timer(&mut self, index: u32, at: Ns) {
        self.timers.set(&mut self.slots, index, at);
    }

    pub(super) fn clear_timer(&mut self, index: u32) {
        self.timers.clear(&mut self.slots, index);
    }

    /// It is over: no message of it is awaited.
    pub(super) fn end(&mut self, index: u32) {
        self.clear_timer(index);
        self.forget(index);
        self.leave_queues(index);
        if let Some(slot) = self.slot_mut(index) {
            slot.state = State::Idle;
        }
    }

    /// Messages of it may still arrive for a while, its request among them.
    pub(super) fn wait(&mut self, index: u32, now: Ns) {
        self.forget_qp(index);
        self.leave_queues(index);
        self.none_waits = false;
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        slot.state = State::TimeWait;
        slot.due &= !due::KEPT;
        let at = now + time(slot.ack_timeout).min(LONGEST);
        self.set_timer(index, at);
    }

    /// A request is no longer one that waits for an answer.
    pub(super) fn leave_queues(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let waited = core::mem::take(&mut slot.is_in_backlog);
        if waited && let Some(listener) = self.listeners.get_mut(slot.listener as usize) {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
        let (place, source) = (slot.unreached, slot.origin.remote);
        if place == NONE {
            return;
        }
        // It is found in another way now.
        let is_known = slot.is_id_known;
        self.forget(index);
        if let Some(slot) = self.slot_mut(index) {
            slot.unreached = NONE;
        }
        if is_known {
            self.know(index);
        }
        if let Some(count) = self.count_of(&source) {
            *count = count.saturating_sub(1);
        }
        if let Some(moved) = self.unreached.remove(place)
            && let Some(moved) = self.slot_mut(moved)
        {
            moved.unreached = place;
        }
    }

    /// How many unreached requests a source has.
    pub(super) fn count_of(&mut self, source: &[u8; GID]) -> Option<&mut u16> {
        let hash = self.source(source);
        self.of_source.get_mut(hash as usize % SOURCES)
    }
}
