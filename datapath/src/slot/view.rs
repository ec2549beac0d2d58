//! The parts of a slot table that are indexed by numbers from CQEs and rings.

use super::{QpSlot, QueueLine, SlotMemory, Slots, qp};
use crate::track::{self, Tracker};

/// All QP slots and all trackers, as a poller keeps them: their place in the
/// memory is checked once.
pub(crate) struct PollerView<M: SlotMemory> {
    qps: M::Groups<{ qp::WORDS }>,
    trackers: M::Groups<{ track::WORDS }>,
}

impl<M: SlotMemory> PollerView<M> {
    pub(crate) fn new(slots: &Slots<M>) -> Option<Self> {
        Some(Self {
            qps: slots.all_qps()?,
            trackers: slots.all_trackers()?,
        })
    }

    /// Slot of a QP id.
    #[inline(always)]
    pub(crate) fn qp(&self, id: u32) -> Option<QpSlot<'_, M::Atom>> {
        let (lines, _) = self.qps.get(id as usize)?.as_chunks();
        lines.first_chunk().map(QpSlot::new)
    }

    /// All trackers.
    pub(crate) fn trackers(&self) -> &[[M::Atom; track::WORDS]] {
        &self.trackers
    }

    /// The trackers of a work queue.
    #[inline(always)]
    pub(crate) fn trackers_of(
        &self,
        line: QueueLine<'_, M::Atom>,
    ) -> Option<&[[M::Atom; track::WORDS]]> {
        let rest = self.trackers.get(line.trackers()..)?;
        rest.get(..(line.mask() as usize).wrapping_add(1))
    }

    /// The tracker of a work queue at `index`, which is one of its ring.
    #[inline(always)]
    pub(crate) fn tracker(
        &self,
        line: QueueLine<'_, M::Atom>,
        index: u64,
    ) -> Option<Tracker<'_, M::Atom>> {
        let at = line.trackers().wrapping_add(index as usize);
        self.trackers.get(at).map(Tracker)
    }
}
