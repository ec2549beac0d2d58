//! Whether there is something to poll, without polling.

use e810_hal::{Barrier, Bus, Words};

use super::CompletionQueue;
use crate::slot::{SlotMemory, list};

impl<P: Bus + Barrier, W: Words, M: SlotMemory> CompletionQueue<P, W, M> {
    /// Whether a poll may find something: an entry, or requests that are
    /// completed without one. May say so for an entry that is then skipped.
    pub(super) fn has_more(&self) -> bool {
        self.valid_entry().is_some()
            || self.parked.is_some()
            || self.resizes.has_begun()
            // Control wants something noticed, queues to flush for example.
            || self.cq_slot().epoch() != self.passed
            || self.has_unflushed()
    }

    /// Whether a queue that is flushed by software has requests.
    fn has_unflushed(&self) -> bool {
        let mut node = self.flushing;
        while let Some((id, queue)) = node.get() {
            let Some(slot) = self.view.qp(id) else {
                break;
            };
            let line = slot.queue(queue);
            if slot.is_live() && line.own_tail() < slot.head(queue) {
                return true;
            }
            node = list::next(line.link());
        }
        false
    }
}
