//! Drops the poller's state of a QP that is reset: same number, next generation.

use e810_hal::{Barrier, Bus, DmaWords};

use super::{CompletionQueue, NEVER};
use crate::slot::{SlotMemory, list};

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> CompletionQueue<P, W, M> {
    /// Forgets what is still to be given out of QP `id`, which is hidden: a flush
    /// that is under way, and its place among the queues to flush. Entries of
    /// its old life that are in the ring are skipped when they are met, because
    /// its next one has another key.
    pub fn forget_qp(&mut self, id: u32) {
        if self
            .pending_flush
            .is_some_and(|pending_flush| pending_flush.id == id)
        {
            self.pending_flush = None;
        }
        self.take_inbox();
        let mut before = None;
        let mut node = self.flush_list;
        while let Some((listed, queue)) = node.get() {
            let Some(slot) = self.view.qp(listed) else {
                break;
            };
            let link = slot.queue(queue).link();
            let next = list::next(link);
            if listed == id {
                match before {
                    Some(before) => list::set(before, next),
                    None => self.flush_list = next,
                }
            } else {
                before = Some(link);
            }
            node = next;
        }
        // The next poll finds out what there is to do.
        self.fast_path_epoch = NEVER;
    }
}
