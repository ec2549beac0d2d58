//! One work queue of a QP slot: what its poller and its producer share.

use core::sync::atomic::Ordering;

use e810_types::QpType;

use super::{Atom, FREE};

/// Words of a line.
pub(super) const LINE: usize = 8;

// Control writes the first three words while the slot is free, the poller of
// the queue's CQ the others while it is not.
/// See [`Guard`].
const GUARD: usize = 0;
/// Quanta of the ring, less one.
const MASK: usize = 1;
/// Index of the first tracker among all.
const TRACKERS: usize = 2;
const TAIL: usize = 3;
const FLUSHED: usize = 4;
const LINK: usize = 5;
const LISTED: usize = 6;

/// What a CQE of a work queue must match, in one word: [23:0] id of the queue's CQ, [62:32]
/// generation of the QP, [63] datagrams; all ones when there is no QP. The QP was found by the id
/// in the CQE's context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Guard(u64);

const DATAGRAM: u64 = 1 << 63;

impl Guard {
    pub(super) const fn new(generation: u32, cq: u32, qp_type: QpType) -> Self {
        let datagram = if qp_type.is_datagram() { DATAGRAM } else { 0 };
        Self((generation as u64) << 32 | cq as u64 | datagram)
    }

    /// Whether `context` (CQE q1), whose id is `qp_id`, belongs to a connected QP with this
    /// guard, and `cq` is its CQ. One comparison is enough, because a context is the generation
    /// above the id.
    #[inline(always)]
    pub(crate) const fn admits(self, context: u64, qp_id: u32, cq: u64) -> bool {
        self.0 ^ context ^ qp_id as u64 == cq
    }

    /// As [`admits`](Self::admits), for datagram queues too.
    pub(crate) const fn admits_any(self, context: u64, qp_id: u32, cq: u64) -> bool {
        self.0 != FREE && Self(self.0 & !DATAGRAM).admits(context, qp_id, cq)
    }

    pub(crate) const fn is_datagram(self) -> bool {
        self.0 & DATAGRAM != 0
    }
}

/// View of a line.
#[derive(Debug)]
pub(crate) struct QueueLine<'a, A>(&'a [A; LINE]);

impl<A> Clone for QueueLine<'_, A> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<A> Copy for QueueLine<'_, A> {}

impl<'a, A: Atom> QueueLine<'a, A> {
    #[inline(always)]
    pub(super) const fn new(words: &'a [A; LINE]) -> Self {
        Self(words)
    }

    /// Acquire: after a match, the rest of the line and the trackers belong to the QP of the
    /// guard.
    #[inline(always)]
    pub(crate) fn guard(&self) -> Guard {
        Guard(self.0[GUARD].load(Ordering::Acquire))
    }

    /// Quanta of the ring, less one.
    #[inline(always)]
    pub(crate) fn mask(&self) -> u64 {
        self.0[MASK].load(Ordering::Relaxed)
    }

    /// Index of the first tracker among all.
    #[inline(always)]
    pub(crate) fn trackers(&self) -> usize {
        self.0[TRACKERS].load(Ordering::Relaxed) as usize
    }

    /// Producer: quanta before this position are free, and so are their trackers.
    #[inline(always)]
    pub(crate) fn tail(&self) -> u64 {
        self.0[TAIL].load(Ordering::Acquire)
    }

    /// Poller: its own position.
    #[inline(always)]
    pub(crate) fn own_tail(&self) -> u64 {
        self.0[TAIL].load(Ordering::Relaxed)
    }

    /// Poller: done with the trackers before `tail`.
    #[inline(always)]
    pub(crate) fn set_tail(&self, tail: u64) {
        self.0[TAIL].store(tail, Ordering::Release);
    }

    /// Poller: whether the first completion of a flush is still to come; afterwards it is not.
    pub(crate) fn begin_flush(&self) -> bool {
        let first = self.0[FLUSHED].load(Ordering::Relaxed) == 0;
        self.0[FLUSHED].store(1, Ordering::Relaxed);
        first
    }

    /// Poller: whether the device or software has begun to flush it.
    pub(crate) fn is_flushed(&self) -> bool {
        self.0[FLUSHED].load(Ordering::Relaxed) != 0
    }

    /// Link of the list of queues to flush.
    pub(crate) fn link(&self) -> &'a A {
        &self.0[LINK]
    }

    /// Puts the queue on the list of those the poller flushes by itself;
    /// `false` when it is there already.
    pub(crate) fn enlist(&self) -> bool {
        self.0[LISTED].swap(1) == 0
    }

    /// Control, of a QP whose queues are elsewhere: puts it on a list, as `how`; false when it is
    /// there already. The higher `how` stays.
    pub(super) fn list_as(&self, how: u64) -> bool {
        let before = self.0[LISTED].load(Ordering::Relaxed);
        self.0[LISTED].store(before.max(how), Ordering::Relaxed);
        before == 0
    }

    /// Control: it leaves that list; gives how it was there.
    pub(super) fn take_listed(&self) -> u64 {
        self.0[LISTED].swap(0)
    }

    pub(super) fn open(&self, guard: Guard, quanta: u32, trackers: u32) {
        for word in self.0 {
            word.store(0, Ordering::Relaxed);
        }
        let mask = u64::from(quanta).wrapping_sub(1);
        self.0[MASK].store(mask, Ordering::Relaxed);
        self.0[TRACKERS].store(trackers.into(), Ordering::Relaxed);
        self.0[GUARD].store(guard.0, Ordering::Release);
    }

    pub(super) fn hide(&self) {
        self.0[GUARD].store(FREE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::QpKey;

    #[test]
    fn one_comparison_tells_every_mismatch() {
        let key = QpKey::new(0x123, 77);
        let guard = Guard::new(77, 5, QpType::Rc);
        assert!(guard.admits(key.bits(), 0x123, 5));
        assert!(!guard.admits(key.bits(), 0x122, 5));
        assert!(!guard.admits(key.bits(), 0x123, 4));
        assert!(!guard.admits(QpKey::new(0x123, 78).bits(), 0x123, 5));
        assert!(!guard.admits(key.bits() | 1 << 63, 0x123, 5));
        assert!(!guard.admits(0, 0, 5));
        let datagram = Guard::new(77, 5, QpType::Ud);
        assert!(!datagram.admits(key.bits(), 0x123, 5));
        assert!(datagram.admits_any(key.bits(), 0x123, 5));
        assert!(guard.admits_any(key.bits(), 0x123, 5));
        // No context a device can make up is admitted where there is no QP.
        let none = Guard(FREE);
        for (id, cq) in [(0, 0), (0x123, 5), (0xFF_FFFF, 0xFF_FFFF)] {
            assert!(!none.admits_any(FREE ^ u64::from(id) ^ cq, id, cq));
        }
    }
}
