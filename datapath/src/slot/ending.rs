//! The end of a QP: hidden, then gone and its number free again, or in its next life.

use e810_types::{QpType, WorkQueue};

use super::list;
use super::registry::gone_qp;
use super::space::Extent;
use super::{Atom, CqKey, Node, QpKey, QpSlot, QueueLine, Registry, SlotMemory};
use crate::error::SlotError;
use crate::track::{self, Tracker};

/// Requests that were outstanding, or done and not polled, when their QP was taken out of use:
/// they never complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DroppedWrs {
    /// Send requests, signaled or not.
    pub sends: u32,
    /// Receives.
    pub receives: u32,
}

impl<M: SlotMemory> Registry<M> {
    /// Takes a QP out of use, before DESTROY_QP. From now on its CQEs are skipped and events do
    /// not find it; its producer must be gone or at rest. When the command is done,
    /// [`Registry::retire`] or [`Registry::reopen`] follows. Returns the requests that will never
    /// complete.
    ///
    /// # Errors
    /// [`SlotError::Gone`].
    pub fn hide_qp(&mut self, key: QpKey) -> Result<DroppedWrs, SlotError> {
        let slot = self.live(key)?;
        slot.hide();
        if slot.is_elsewhere() {
            self.unlist_changed(key.id());
            return Ok(DroppedWrs::default());
        }
        let slot = self.hidden(key)?;
        let count = |queue| {
            let line = slot.queue(queue);
            let trackers = self.slots.queue_trackers(line);
            outstanding(trackers.as_deref(), line, slot.head(queue))
        };
        Ok(DroppedWrs {
            sends: count(WorkQueue::Send),
            receives: count(WorkQueue::Recv),
        })
    }

    /// Whether an event handler has put a QP, hidden or not, on the list of marked ones, or is
    /// about to.
    #[must_use]
    pub fn is_marked(&self, key: QpKey) -> bool {
        self.slots
            .qp(key.id())
            .is_some_and(|slot| slot.needs_attention())
    }

    /// Gives a hidden QP that the device no longer knows a new life under the same number, with
    /// the same queues and CQs, empty and in ERR. Call it before CREATE_QP, which is given the
    /// new key; its producers are restarted with that key. [`begin`](Self::begin) follows when
    /// the device has it. Events that come before belong to the old life: none finds the QP.
    ///
    /// The caller holds both CQs meanwhile and has made them release the QP
    /// ([`CompletionQueue::forget_gone`](crate::CompletionQueue::forget_gone)), so that no poller
    /// is in the middle of its old life.
    ///
    /// # Errors
    /// [`SlotError::Gone`] for a QP that is not hidden; [`SlotError::Busy`]
    /// while an event handler is just putting it on the list of marked ones:
    /// take what is marked, and try again.
    pub fn reopen(&mut self, key: QpKey, qp_type: QpType) -> Result<QpKey, SlotError> {
        let next = self.hidden(key)?.next_key(key.id());
        self.reopen_with(key, next, qp_type)?;
        Ok(next)
    }

    pub(super) fn reopen_with(
        &mut self,
        key: QpKey,
        next: QpKey,
        qp_type: QpType,
    ) -> Result<(), SlotError> {
        let id = key.id();
        let slot = self.hidden(key)?;
        if slot.needs_attention() {
            return Err(SlotError::Busy { object: "QP", id });
        }
        if slot.is_elsewhere() {
            slot.reopen(next, qp_type);
            return Ok(());
        }
        for queue in [WorkQueue::Send, WorkQueue::Recv] {
            // They end at positions that the next life may not have reached.
            let trackers = self.slots.queue_trackers(slot.queue(queue));
            for tracker in trackers.as_deref().unwrap_or_default() {
                Tracker(tracker).forget();
            }
        }
        slot.reopen(next, qp_type);
        Ok(())
    }

    /// The device has a QP again that was [reopened](Self::reopen): it is in RESET.
    ///
    /// # Errors
    /// [`SlotError::Gone`].
    pub fn begin(&mut self, key: QpKey) -> Result<(), SlotError> {
        self.live(key)?.begin(key);
        self.changed(key, false);
        Ok(())
    }

    /// The device no longer knows a hidden QP: the id becomes free when both CQs have passed its
    /// last CQE ([`Registry::reap`]).
    ///
    /// # Errors
    /// [`SlotError::Gone`] for a QP that is not hidden, or already retired.
    pub fn retire(&mut self, key: QpKey) -> Result<(), SlotError> {
        let slot = self.hidden(key)?;
        let [send, recv] = slot.awaited().map(|(cq, _)| {
            let cq = self.slots.live_cq(CqKey::from_bits(cq)?)?;
            let epoch = cq.raise();
            cq.unrefer();
            Some(epoch)
        });
        slot.retire(send.unwrap_or(0), recv.unwrap_or(0));
        list::set(slot.retire_link(), self.retired);
        self.retired = Node::qp(key.id());
        Ok(())
    }

    /// The slot of a QP that is hidden and not yet retired.
    fn hidden(&self, key: QpKey) -> Result<QpSlot<'_, M::Atom>, SlotError> {
        let slot = self.slots.qp(key.id());
        slot.filter(|slot| slot.hidden() == Some(key.generation()))
            .ok_or(gone_qp(key))
    }

    /// The id of a retired QP that can be opened again; its tracker space is free. `None` when
    /// there is none: a CQ has to be polled first, or has to
    /// [forget](crate::CompletionQueue::forget_gone) QPs that are gone.
    pub fn reap(&mut self) -> Option<u32> {
        let mut before: Option<QpSlot<'_, M::Atom>> = None;
        let mut node = self.retired;
        while let Some((id, _)) = node.get() {
            let slot = self.slots.qp(id)?;
            let next = list::next(slot.retire_link());
            if self.is_confirmed(slot) {
                match before {
                    Some(before) => list::set(before.retire_link(), next),
                    None => self.retired = next,
                }
                if !slot.is_elsewhere() {
                    let extent = Extent::from_bits(slot.extent());
                    self.space.free(self.slots.atoms(), extent);
                }
                slot.release();
                return Some(id);
            }
            before = Some(slot);
            node = next;
        }
        None
    }

    /// QPs that are retired and not reaped.
    #[must_use]
    pub fn retired(&self) -> u32 {
        let (mut count, mut node) = (0u32, self.retired);
        while let Some(slot) = node.get().and_then(|(id, _)| self.slots.qp(id)) {
            count = count.saturating_add(1);
            node = list::next(slot.retire_link());
        }
        count
    }

    fn is_confirmed(&self, slot: QpSlot<'_, M::Atom>) -> bool {
        let confirmed = slot.awaited().into_iter().all(|(cq, epoch)| {
            // A CQ that was closed meanwhile has no poller any more.
            CqKey::from_bits(cq)
                .and_then(|cq| self.slots.live_cq(cq))
                .is_none_or(|cq| cq.has_confirmed(epoch))
        });
        confirmed && slot.is_forgotten() && !slot.needs_attention()
    }
}

/// Requests between tail and head, padding not counted.
fn outstanding<A: Atom>(
    trackers: Option<&[[A; track::WORDS]]>,
    line: QueueLine<'_, A>,
    head: u64,
) -> u32 {
    let (mut at, mut count) = (line.own_tail(), 0u32);
    while at < head
        && let Some(tracker) = trackers.and_then(|all| all.get((at & line.mask()) as usize))
    {
        let tag = Tracker(tracker).tag();
        count = count.saturating_add(u32::from(!tag.is_pad()));
        at = at.wrapping_add(tag.quanta());
    }
    count
}
