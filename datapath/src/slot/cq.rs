//! Slot of a CQ.

use core::sync::atomic::Ordering;

use super::{Atom, CqKey, FREE, Node, list};

/// Words of a slot: two cache lines, the second the poller's.
pub(super) const WORDS: usize = 16;

/// The key, or [`FREE`].
const IDENTITY: usize = 0;
/// Work queues that complete here; control.
const REFERENCES: usize = 1;
/// CEQEs that events have seen.
const EVENTS: usize = 2;
/// Raised by control when the poller has something to notice.
pub(super) const EPOCH: usize = 3;
/// Work queues for the poller to flush.
const INBOX: usize = 4;
/// 1 when the device reported the CQ as failed.
const FAILED: usize = 5;
/// Generation of the last key; control.
const GENERATION: usize = 6;
/// The last epoch the poller has confirmed.
const PASSED: usize = 8;

/// View of a slot.
#[derive(Debug)]
pub(crate) struct CqSlot<'a, A>(&'a [A; WORDS]);

impl<'a, A: Atom> CqSlot<'a, A> {
    #[inline(always)]
    pub(super) fn at(atoms: &'a [A], start: usize) -> Option<Self> {
        atoms.get(start..)?.first_chunk().map(Self)
    }

    pub(super) fn is(&self, key: CqKey) -> bool {
        self.0[IDENTITY].load(Ordering::Acquire) == key.bits()
    }

    pub(super) fn is_free(&self) -> bool {
        self.0[IDENTITY].load(Ordering::Relaxed) == FREE
    }

    pub(super) fn clear(&self) {
        self.0[IDENTITY].store(FREE, Ordering::Relaxed);
    }

    /// Gives the slot to a new CQ. It is free, so nobody else writes to it.
    pub(super) fn open(&self, id: u32) -> CqKey {
        let generation = self.0[GENERATION].load(Ordering::Relaxed) as u32;
        let generation = super::key::next_generation(generation);
        for word in [REFERENCES, EVENTS, EPOCH, INBOX, FAILED, PASSED] {
            if let Some(word) = self.0.get(word) {
                word.store(0, Ordering::Relaxed);
            }
        }
        self.0[GENERATION].store(generation.into(), Ordering::Relaxed);
        let key = CqKey::new(id, generation);
        self.0[IDENTITY].store(key.bits(), Ordering::Release);
        key
    }

    pub(super) fn close(&self) {
        self.0[IDENTITY].store(FREE, Ordering::Release);
    }

    pub(super) fn references(&self) -> u64 {
        self.0[REFERENCES].load(Ordering::Relaxed)
    }

    pub(super) fn refer(&self) {
        self.0[REFERENCES].fetch_add(1);
    }

    pub(super) fn unrefer(&self) {
        self.0[REFERENCES].fetch_add(u64::MAX);
    }

    pub(super) fn signal(&self) {
        self.0[EVENTS].fetch_add(1);
    }

    /// CEQEs seen so far.
    pub(crate) fn events(&self) -> u64 {
        self.0[EVENTS].load(Ordering::Acquire)
    }

    pub(super) fn fail(&self) {
        self.0[FAILED].store(1, Ordering::Release);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.0[FAILED].load(Ordering::Acquire) != 0
    }

    /// Makes the poller look, and gives the epoch that it will confirm.
    pub(super) fn raise(&self) -> u64 {
        self.0[EPOCH].fetch_add(1).wrapping_add(1)
    }

    /// The poller's word that every CQE written before `epoch` was raised is
    /// behind it, and that it touches no slot retired before then.
    pub(crate) fn confirm(&self, epoch: u64) {
        self.0[PASSED].store(epoch, Ordering::Release);
    }

    pub(super) fn has_passed(&self, epoch: u64) -> bool {
        self.0[PASSED].load(Ordering::Acquire) >= epoch
    }

    pub(super) fn enlist(&self, link: &A, node: Node) {
        list::push(&self.0[INBOX], link, node);
    }

    pub(crate) fn take_inbox(&self) -> Node {
        list::take(&self.0[INBOX])
    }
}
