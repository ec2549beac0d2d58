//! Slot of a CQ.

use core::sync::atomic::Ordering;

use super::{Atom, CqKey, FREE, Node, list};
use crate::arm::Pending;

/// Lines of a slot: control's and the poller's.
pub(super) const LINES: usize = 2;
/// Words of a line.
pub(super) const LINE: usize = 8;
/// Words of a slot.
pub(super) const WORDS: usize = LINES * LINE;

/// The key, or [`FREE`].
const IDENTITY: usize = 0;
/// Work queues that complete here; control.
const REFERENCES: usize = 1;
/// [31:0] events told, [62:32] generation of the key that they are of.
const EVENTS: usize = 2;
/// Raised by control when the poller has something to notice, and when the CQ is gone. The poller
/// of a life that is over therefore always has something to notice, and then finds out.
const EPOCH: usize = 3;
/// Work queues for the poller to flush.
const INBOX: usize = 4;
/// [0] the device reported the CQ as failed, [62:32] generation of that CQ.
const FAILED: usize = 5;
/// Generation of the last key; control.
const GENERATION: usize = 6;
// The poller's line.
/// The last epoch the poller has confirmed.
const PASSED: usize = 0;
/// [1:0] see [`Pending`], [62:32] generation of the key whose request it is; the
/// poller and events write it.
const PENDING: usize = 1;
/// Index of the channel, plus one; 0 for none, [`ELSEWHERE`]. Written while the slot is free.
const CHANNEL: usize = 2;
/// [31:0] events handed out by the channel, [62:32] generation of the key that they are of,
/// [63] the CQ is being destroyed.
const TAKEN: usize = 3;
/// Events of those that were acknowledged.
const ACKNOWLEDGED: usize = 4;
/// Handlers that are telling something about the CQ just now.
const HOLDS: usize = 5;
/// A word of the program's own; control writes it before the CQ is known to anybody.
const USER_CONTEXT: usize = 6;
/// Counts lists of requests that producers posted to queues in error.
const POSTED_IN_ERROR: usize = 7;

/// No channel here: the CQ is polled in another table of slots.
const ELSEWHERE: u64 = u64::MAX;
const CLOSING: u64 = 1 << 63;
const COUNT: u64 = 0xFFFF_FFFF;
const FAILED_BIT: u64 = 1;

/// The generation of `key` in a word that belongs to one life of the slot: a thread that was held
/// up with the key of an earlier life changes nothing of this one.
const fn life(key: CqKey) -> u64 {
    (key.generation() as u64) << 32
}

const fn is_of(word: u64, key: CqKey) -> bool {
    word & !COUNT == life(key)
}

/// Who hears of a CQ's events.
#[derive(Clone, Copy, Debug)]
pub(super) enum Listener {
    /// Only its poller, when it looks.
    None,
    /// The channel of this index, too.
    Channel(u32),
    /// Its poller, which is in another table of slots: each event is passed on to it.
    Elsewhere,
}

impl Listener {
    const fn word(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Channel(index) => (index as u64).wrapping_add(1),
            Self::Elsewhere => ELSEWHERE,
        }
    }
}

/// View of a slot.
#[derive(Debug)]
pub(crate) struct CqSlot<'a, A>(&'a [[A; LINE]; LINES]);

impl<'a, A: Atom> CqSlot<'a, A> {
    #[inline(always)]
    pub(crate) const fn new(lines: &'a [[A; LINE]; LINES]) -> Self {
        Self(lines)
    }

    #[inline(always)]
    fn control(&self) -> &'a [A; LINE] {
        let [control, _] = self.0;
        control
    }

    fn poller(&self) -> &'a [A; LINE] {
        let [_, poller] = self.0;
        poller
    }

    /// The latest epoch that the poller has to notice.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        self.control()[EPOCH].load(Ordering::Acquire)
    }

    pub(crate) fn is(&self, key: CqKey) -> bool {
        self.control()[IDENTITY].load(Ordering::Acquire) == key.bits()
    }

    pub(super) fn is_free(&self) -> bool {
        self.control()[IDENTITY].load(Ordering::Relaxed) == FREE
    }

    pub(super) fn clear(&self) {
        self.control()[IDENTITY].store(FREE, Ordering::Relaxed);
    }

    /// The key of the next CQ of this slot.
    pub(super) fn next_key(&self, id: u32) -> CqKey {
        let generation = self.control()[GENERATION].load(Ordering::Relaxed) as u32;
        CqKey::new(id, super::key::next_generation(generation))
    }

    /// Gives the slot to a new CQ. It is free, so nobody but a late handler writes to
    /// it.
    pub(super) fn open(&self, key: CqKey, listener: Listener) {
        let control = self.control();
        for word in [REFERENCES, INBOX] {
            if let Some(word) = control.get(word) {
                word.store(0, Ordering::Relaxed);
            }
        }
        for word in [ACKNOWLEDGED, USER_CONTEXT] {
            if let Some(word) = self.poller().get(word) {
                word.store(0, Ordering::Relaxed);
            }
        }
        self.confirm(self.epoch());
        // Exchanged: a thread that was held up with the former key may be at it.
        let [pending, taken] = [PENDING, TAKEN].map(|word| self.poller().get(word));
        let [events, failed] = [EVENTS, FAILED].map(|word| control.get(word));
        for word in [events, failed, pending, taken].into_iter().flatten() {
            word.swap(life(key));
        }
        self.poller()[CHANNEL].store(listener.word(), Ordering::Relaxed);
        let generation = key.generation().into();
        self.control()[GENERATION].store(generation, Ordering::Relaxed);
        self.control()[IDENTITY].store(key.bits(), Ordering::Release);
    }

    /// Whether it is polled in another table of slots.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.poller()[CHANNEL].load(Ordering::Relaxed) == ELSEWHERE
    }

    pub(super) fn close(&self) {
        self.control()[IDENTITY].store(FREE, Ordering::Release);
        self.raise();
    }

    pub(super) fn references(&self) -> u64 {
        self.control()[REFERENCES].load(Ordering::Relaxed)
    }

    pub(super) fn refer(&self) {
        self.control()[REFERENCES].fetch_add(1);
    }

    pub(super) fn unrefer(&self) {
        self.control()[REFERENCES].fetch_add(u64::MAX);
    }

    /// What the poller of `key` has asked for without being notified yet.
    pub(crate) fn pending(&self, key: CqKey) -> Pending {
        let word = self.poller()[PENDING].load(Ordering::Acquire);
        match is_of(word, key) {
            true => Pending::from_bits(word),
            false => Pending::NONE,
        }
    }

    /// The poller of `key` asks the device for an event. This comes before the device is told, so
    /// that whatever it writes for the request finds it. False when `key` no longer lives here:
    /// the device must not be told then.
    ///
    /// It is an exchange, as in [`signal_by_software`](Self::signal_by_software): the poller
    /// looks for work after it and software brings work before it, and of two exchanges of one
    /// word the second sees what was written before the first. With a store here and a load there
    /// each side could miss the other.
    pub(crate) fn ask(&self, key: CqKey) -> bool {
        let word = &self.poller()[PENDING];
        let mut before = word.load(Ordering::Relaxed);
        while is_of(before, key) {
            match word.compare_exchange(before, life(key) | Pending::ASKED.bits()) {
                Ok(_) => return true,
                Err(now) => before = now,
            }
        }
        false
    }

    /// The poller of `key` wants to be notified by the outstanding request to the device; false
    /// when that is no longer `pending`.
    pub(crate) fn want(&self, key: CqKey, pending: Pending) -> bool {
        let word = |pending: Pending| life(key) | pending.bits();
        pending.is_wanted()
            || self.poller()[PENDING]
                .compare_exchange(word(pending), word(pending.wanted()))
                .is_ok()
    }

    /// Counts an event of the device, if it was asked for and software did not notify meanwhile.
    /// `None` when `key` no longer lives here.
    pub(super) fn signal(&self, key: CqKey) -> Option<bool> {
        if self.is_elsewhere() {
            return self.is(key).then_some(true);
        }
        let word = &self.poller()[PENDING];
        let mut before = word.load(Ordering::Acquire);
        while is_of(before, key) && Pending::from_bits(before) != Pending::NONE {
            match word.compare_exchange(before, life(key) | Pending::NONE.bits()) {
                Ok(_) => return self.tell(key, Pending::from_bits(before)),
                Err(now) => before = now,
            }
        }
        is_of(before, key).then_some(false)
    }

    /// Counts an event of software, if one was asked for and not counted. `None` when `key` no
    /// longer lives here.
    pub(super) fn signal_by_software(&self, key: CqKey) -> Option<bool> {
        let word = &self.poller()[PENDING];
        // An exchange, also where there is nothing to tell: see `ask`.
        let mut before = word.fetch_or(0);
        while is_of(before, key) && Pending::from_bits(before).is_wanted() {
            let notified = Pending::from_bits(before).notified();
            match word.compare_exchange(before, life(key) | notified.bits()) {
                Ok(_) => return self.tell(key, Pending::from_bits(before)),
                Err(now) => before = now,
            }
        }
        is_of(before, key).then_some(false)
    }

    /// Counts an event of `key`, if `before` has one that was wanted.
    fn tell(&self, key: CqKey, before: Pending) -> Option<bool> {
        if !before.is_wanted() {
            return Some(false);
        }
        let word = &self.control()[EVENTS];
        let mut events = word.load(Ordering::Acquire);
        while is_of(events, key) {
            let more = events.wrapping_add(1) & COUNT;
            match word.compare_exchange(events, life(key) | more) {
                Ok(_) => return Some(true),
                Err(now) => events = now,
            }
        }
        None
    }

    /// Events of `key` told so far, modulo 2^32; `None` when it lives here no more.
    pub(crate) fn events(&self, key: CqKey) -> Option<u64> {
        let word = self.control()[EVENTS].load(Ordering::Acquire);
        is_of(word, key).then_some(word & COUNT)
    }

    /// The channel that tells the events.
    pub(super) fn channel(&self) -> Option<u32> {
        match self.poller()[CHANNEL].load(Ordering::Relaxed) {
            0 | ELSEWHERE => None,
            index => Some(index.wrapping_sub(1) as u32),
        }
    }

    /// Control: the program's own word.
    pub(super) fn set_user_context(&self, context: u64) {
        self.poller()[USER_CONTEXT].store(context, Ordering::Release);
    }

    pub(super) fn user_context(&self) -> u64 {
        self.poller()[USER_CONTEXT].load(Ordering::Acquire)
    }

    /// The key of the CQ that lives here.
    pub(super) fn key(&self) -> Option<CqKey> {
        CqKey::from_bits(self.control()[IDENTITY].load(Ordering::Acquire))
    }

    /// Hands out one event of `key`, if one is left; returns whether there are more.
    pub(super) fn take(&self, key: CqKey) -> Option<bool> {
        let taken = &self.poller()[TAKEN];
        let mut before = taken.load(Ordering::Acquire);
        // Not of one that is being destroyed, whose word differs.
        while is_of(before, key) {
            let waiting = self.events(key)?.wrapping_sub(before) & COUNT;
            if waiting == 0 {
                break;
            }
            let more = before.wrapping_add(1) & COUNT;
            match taken.compare_exchange(before, life(key) | more) {
                Ok(_) => return Some(waiting > 1),
                Err(now) => before = now,
            }
        }
        None
    }

    /// Events handed out and not acknowledged.
    pub(super) fn unacknowledged(&self) -> u32 {
        let taken = self.poller()[TAKEN].load(Ordering::Acquire);
        let acknowledged = self.poller()[ACKNOWLEDGED].load(Ordering::Acquire);
        taken.wrapping_sub(acknowledged) as u32
    }

    /// Acknowledges `events` of those; false when there are not that many.
    pub(super) fn acknowledge(&self, events: u32) -> bool {
        let acknowledged = &self.poller()[ACKNOWLEDGED];
        let mut before = acknowledged.load(Ordering::Acquire);
        loop {
            let taken = self.poller()[TAKEN].load(Ordering::Acquire);
            let outstanding = taken.wrapping_sub(before) & COUNT;
            if u64::from(events) > outstanding {
                return false;
            }
            let after = before.wrapping_add(events.into()) & COUNT;
            match acknowledged.compare_exchange(before, after) {
                Ok(_) => return true,
                Err(now) => before = now,
            }
        }
    }

    /// Control: from now on no event is handed out, and no handler begins to tell
    /// something.
    pub(super) fn begin_close(&self) {
        self.poller()[TAKEN].fetch_or(CLOSING);
    }

    /// Control: the CQ lives on.
    pub(super) fn cancel_close(&self) {
        self.poller()[TAKEN].fetch_and(!CLOSING);
    }

    /// A handler is about to report something about the CQ: false when it is being destroyed, or
    /// is gone.
    ///
    /// Count and flag are both exchanged, here the count first and in `begin_close` the flag:
    /// either this call sees the flag, or control sees the count.
    pub(super) fn hold(&self, key: CqKey) -> bool {
        self.poller()[HOLDS].fetch_add(1);
        let closing = self.poller()[TAKEN].load(Ordering::Acquire) & CLOSING != 0;
        let held = !closing && self.is(key);
        if !held {
            self.release();
        }
        held
    }

    pub(super) fn release(&self) {
        self.poller()[HOLDS].fetch_add(u64::MAX);
    }

    /// Control, after `begin_close`: handlers that still tell something.
    pub(super) fn holds(&self) -> u64 {
        self.poller()[HOLDS].fetch_add(0)
    }

    /// Marks the CQ as failed; false when `key` lives here no more.
    pub(super) fn fail(&self, key: CqKey) -> bool {
        let word = &self.control()[FAILED];
        let failed = life(key) | FAILED_BIT;
        match word.compare_exchange(life(key), failed) {
            Ok(_) => true,
            Err(now) => now == failed,
        }
    }

    pub(crate) fn has_failed(&self, key: CqKey) -> bool {
        self.control()[FAILED].load(Ordering::Acquire) == life(key) | FAILED_BIT
    }

    /// Makes the poller look, and gives the epoch that it will confirm.
    pub(super) fn raise(&self) -> u64 {
        self.control()[EPOCH].fetch_add(1).wrapping_add(1)
    }

    /// The poller reports that every CQE written before `epoch` was raised has been consumed, and
    /// that it touches no slot retired before then.
    pub(crate) fn confirm(&self, epoch: u64) {
        self.poller()[PASSED].store(epoch, Ordering::Release);
    }

    /// What it has confirmed last.
    pub(crate) fn confirmed(&self) -> u64 {
        self.poller()[PASSED].load(Ordering::Acquire)
    }

    /// Whether its poller here has; there may be none.
    pub(super) fn has_confirmed(&self, epoch: u64) -> bool {
        self.is_elsewhere() || self.poller()[PASSED].load(Ordering::Acquire) >= epoch
    }

    pub(super) fn enlist(&self, link: &A, node: Node) {
        list::push(&self.control()[INBOX], link, node);
    }

    pub(crate) fn take_inbox(&self) -> Node {
        list::take(&self.control()[INBOX])
    }

    /// A producer has posted to a queue in error.
    pub(super) fn note_posted_in_error(&self) {
        self.poller()[POSTED_IN_ERROR].fetch_add(1);
    }

    /// How often. What was posted before is seen by who sees its count.
    pub(crate) fn posted_in_error(&self) -> u64 {
        self.poller()[POSTED_IN_ERROR].load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    /// A thread that was held up with the key of an ended life finds nothing, and changes nothing
    /// of the next.
    #[test]
    fn a_key_of_before_finds_nothing() {
        let lines: [[AtomicU64; LINE]; LINES] = Default::default();
        let slot = CqSlot::new(&lines);
        slot.clear();
        let announce = |key| {
            assert!(slot.ask(key));
            assert_eq!(slot.signal(key), Some(true));
        };
        let open = || {
            let key = slot.next_key(5);
            slot.open(key, Listener::Channel(0));
            key
        };
        let old = open();
        announce(old);
        announce(old);
        assert_eq!(slot.take(old), Some(true));
        assert!(slot.fail(old));
        let confirmed = slot.raise();
        slot.close();
        assert_ne!(
            slot.epoch(),
            confirmed,
            "its poller has something to notice"
        );

        let new = open();
        assert!(slot.has_confirmed(slot.epoch()));
        announce(new);
        assert_eq!((slot.take(old), slot.events(old)), (None, None));
        assert!(!slot.ask(old) && !slot.has_failed(old) && !slot.has_failed(new));
        assert_eq!(
            (slot.signal(old), slot.signal_by_software(old)),
            (None, None)
        );
        assert_eq!(slot.pending(old), Pending::NONE);
        assert_eq!(slot.take(new), Some(false));
        assert_eq!(slot.take(new), None);
        slot.begin_close();
        announce(new);
        assert_eq!(slot.take(new), None, "it is being destroyed");
        slot.cancel_close();
        assert_eq!(slot.take(new), Some(false));
        assert_eq!(slot.channel(), Some(0));
        slot.close();

        let elsewhere = slot.next_key(5);
        slot.open(elsewhere, Listener::Elsewhere);
        assert_eq!((slot.channel(), slot.signal(new)), (None, None));
        for _ in 0..2 {
            assert_eq!(slot.signal(elsewhere), Some(true), "each is passed on");
        }
        assert!(slot.has_confirmed(slot.raise()), "no poller here");
    }
}
