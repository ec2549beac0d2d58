//! The request that an entry names.

use super::entry;
use crate::slot::{Atom, PollerView, QueueLine, SlotMemory};
use crate::track::Tracker;

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
    pub(super) fn named<M: SlotMemory<Atom = A>>(
        view: &'a PollerView<M>,
        line: QueueLine<'_, A>,
        q3: u64,
    ) -> Option<Self> {
        let index = entry::wqe_index(q3);
        if index > line.mask() {
            return None;
        }
        let tracker = view.tracker(line, index)?;
        Self::outstanding(tracker, line.own_tail())
    }

    /// The oldest outstanding request, if that is the one at the entry's index.
    #[inline(always)]
    pub(super) fn oldest<M: SlotMemory<Atom = A>>(
        view: &'a PollerView<M>,
        line: QueueLine<'_, A>,
        q3: u64,
    ) -> Option<Self> {
        let (index, tail) = (entry::wqe_index(q3), line.own_tail());
        if index != tail & line.mask() {
            return None;
        }
        Self::outstanding(view.tracker(line, index)?, tail)
    }

    #[inline(always)]
    fn outstanding(tracker: Tracker<'a, A>, tail: u64) -> Option<Self> {
        let end = tracker.end();
        (end > tail).then_some(Self { tracker, tail, end })
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

    /// It and all before it are done; their trackers are the producer's again.
    /// Gives its wr_id.
    #[inline(always)]
    pub(super) fn retire(&self, line: QueueLine<'_, A>) -> u64 {
        let wr_id = self.tracker.wr_id();
        line.set_tail(self.end);
        wr_id
    }
}
