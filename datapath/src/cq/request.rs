//! The request that an entry names.

use super::entry;
use crate::slot::{Atom, QueueLine};
use crate::track::{self, Tracker};

/// An outstanding request.
pub(super) struct Request<'a, A> {
    pub(super) tracker: Tracker<'a, A>,
    /// Position of the oldest outstanding one, and that after this one.
    tail: u64,
    end: u64,
}

impl<'a, A: Atom> Request<'a, A> {
    /// The outstanding request whose first quantum is at the entry's index.
    #[inline(always)]
    pub(super) fn named(
        trackers: &'a [[A; track::WORDS]],
        line: QueueLine<'_, A>,
        q3: u64,
    ) -> Option<Self> {
        let index = entry::wqe_index(q3);
        let mask = line.mask();
        if index > mask {
            return None;
        }
        let tracker = trackers.get(line.trackers().wrapping_add(index as usize))?;
        let tracker = Tracker(tracker);
        let tail = line.own_tail();
        let end = tracker.end();
        (end.wrapping_sub(tail).wrapping_sub(1) < mask).then_some(Self { tracker, tail, end })
    }

    /// Whether it is the oldest one, by the entry's index.
    #[inline(always)]
    pub(super) fn is_oldest(&self, line: QueueLine<'_, A>, q3: u64) -> bool {
        entry::wqe_index(q3) == self.tail & line.mask()
    }

    /// Quanta from the oldest outstanding request to the end of this one.
    pub(super) fn ahead(&self) -> u64 {
        self.end.wrapping_sub(self.tail)
    }

    /// Whether it was posted. One that is expected always was; of others, a
    /// tracker that was never written can look like the first.
    pub(super) fn is_before(&self, head: u64) -> bool {
        self.end <= head
    }

    /// It and all before it are done; their trackers are the poster's again.
    /// Gives its wr_id.
    #[inline(always)]
    pub(super) fn retire(&self, line: QueueLine<'_, A>) -> u64 {
        let wr_id = self.tracker.wr_id();
        line.set_tail(self.end);
        wr_id
    }
}
