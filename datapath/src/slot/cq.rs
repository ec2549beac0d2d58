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
/// Events told.
const EVENTS: usize = 2;
/// Raised by control when the poller has something to notice.
const EPOCH: usize = 3;
/// Work queues for the poller to flush.
const INBOX: usize = 4;
/// 1 when the device reported the CQ as failed.
const FAILED: usize = 5;
/// Generation of the last key; control.
const GENERATION: usize = 6;
// The poller's line.
/// The last epoch the poller has confirmed.
const PASSED: usize = 0;
/// See [`Pending`]; the poller and events write it.
const PENDING: usize = 1;

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

    /// What the poller has to notice at latest.
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

    /// Gives the slot to a new CQ. It is free, so nobody else writes to it.
    pub(super) fn open(&self, id: u32) -> CqKey {
        let generation = self.control()[GENERATION].load(Ordering::Relaxed) as u32;
        let generation = super::key::next_generation(generation);
        let control = self.control();
        for word in [REFERENCES, EVENTS, EPOCH, INBOX, FAILED] {
            if let Some(word) = control.get(word) {
                word.store(0, Ordering::Relaxed);
            }
        }
        self.poller()[PASSED].store(0, Ordering::Relaxed);
        self.poller()[PENDING].store(0, Ordering::Relaxed);
        self.control()[GENERATION].store(generation.into(), Ordering::Relaxed);
        let key = CqKey::new(id, generation);
        self.control()[IDENTITY].store(key.bits(), Ordering::Release);
        key
    }

    pub(super) fn close(&self) {
        self.control()[IDENTITY].store(FREE, Ordering::Release);
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

    /// What the poller has asked for, and was not told yet.
    pub(crate) fn pending(&self) -> Pending {
        Pending::from_bits(self.poller()[PENDING].load(Ordering::Acquire))
    }

    /// The poller asks the device for an event; before the device is told, so that
    /// whatever it writes for that finds the request.
    pub(crate) fn ask(&self) {
        self.poller()[PENDING].store(Pending::ASKED.bits(), Ordering::Release);
    }

    /// The poller wants to be told by what the device was asked for before; false
    /// when that is not `pending` any more.
    pub(crate) fn want(&self, pending: Pending) -> bool {
        pending.is_wanted() || self.replace(pending, pending.wanted())
    }

    fn replace(&self, old: Pending, new: Pending) -> bool {
        let word = &self.poller()[PENDING];
        word.compare_exchange(old.bits(), new.bits()).is_ok()
    }

    /// Tells an event of the device, if it was asked for and not told by software
    /// meanwhile.
    pub(super) fn signal(&self) -> bool {
        let none = Pending::NONE.bits();
        let before = Pending::from_bits(self.poller()[PENDING].swap(none));
        self.tell(before)
    }

    /// Tells an event of software, if one was asked for and not told.
    pub(super) fn signal_by_software(&self) -> bool {
        loop {
            let before = self.pending();
            if !before.is_wanted() || self.replace(before, before.told()) {
                return self.tell(before);
            }
        }
    }

    fn tell(&self, before: Pending) -> bool {
        if before.is_wanted() {
            self.control()[EVENTS].fetch_add(1);
        }
        before.is_wanted()
    }

    /// Events told so far.
    pub(crate) fn events(&self) -> u64 {
        self.control()[EVENTS].load(Ordering::Acquire)
    }

    pub(super) fn fail(&self) {
        self.control()[FAILED].store(1, Ordering::Release);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.control()[FAILED].load(Ordering::Acquire) != 0
    }

    /// Makes the poller look, and gives the epoch that it will confirm.
    pub(super) fn raise(&self) -> u64 {
        self.control()[EPOCH].fetch_add(1).wrapping_add(1)
    }

    /// The poller's word that every CQE written before `epoch` was raised is
    /// behind it, and that it touches no slot retired before then.
    pub(crate) fn confirm(&self, epoch: u64) {
        self.poller()[PASSED].store(epoch, Ordering::Release);
    }

    pub(super) fn has_passed(&self, epoch: u64) -> bool {
        self.poller()[PASSED].load(Ordering::Acquire) >= epoch
    }

    pub(super) fn enlist(&self, link: &A, node: Node) {
        list::push(&self.control()[INBOX], link, node);
    }

    pub(crate) fn take_inbox(&self) -> Node {
        list::take(&self.control()[INBOX])
    }
}
