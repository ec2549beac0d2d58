//! Whether there is something to poll, without polling.

use e810_hal::{Barrier, Bus, DmaWord, DmaWords};

use super::entry::VALID;
use super::{CompletionQueue, entry_at};

use crate::slot::{SlotMemory, list};

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> CompletionQueue<P, W, M> {
    /// Entries that wait to be polled, for monitoring: it reads the header of each.
    /// Immediate data make an entry more, skipped ones are among them, and requests
    /// that software completes are not. After a resize those of the new ring count as
    /// well.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        let (mut index, mut valid) = (self.index, self.valid);
        let mut waiting = 0u32;
        while u64::from(waiting) < self.entries
            && let Some([.., header]) = entry_at(self.ring.words(), index)
            && (header.observe() ^ valid) & VALID == 0
        {
            waiting = waiting.wrapping_add(1);
            index = index.wrapping_add(1);
            if index == self.entries {
                (index, valid) = (0, valid ^ VALID);
            }
        }
        waiting.wrapping_add(self.resizes.waiting())
    }

    /// Whether a poll may find something: an entry, or requests that are
    /// completed without one. May say so for an entry that is then skipped.
    pub(super) fn has_more(&self) -> bool {
        let is_quiet = self.valid_entry().is_none()
            && self.pending_flush.is_none()
            && !self.resizes.has_begun()
            // Control wants something noticed, queues to flush for example.
            && self.cq_slot().epoch() == self.confirmed_epoch
            && !self.has_unflushed();
        // A poll of one that is gone finds nothing, whatever is there.
        !is_quiet && self.lives()
    }

    /// Whether a queue that is flushed by software has requests.
    fn has_unflushed(&self) -> bool {
        let mut node = self.flush_list;
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
