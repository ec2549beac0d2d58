//! Letting go of a QP that begins anew under its number.

use e810_hal::{Barrier, Bus, Words};

use super::{CompletionQueue, NEVER};
use crate::slot::{SlotMemory, list};

impl<P: Bus + Barrier, W: Words, M: SlotMemory> CompletionQueue<P, W, M> {
    /// Forgets what is still to be given out of QP `id`, which is hidden: a flush
    /// that is under way, and its place among the queues to flush. Entries of
    /// its old life that are in the ring are skipped when they are met, because
    /// its next one has another key.
    pub fn let_go(&mut self, id: u32) {
        if self.parked.is_some_and(|parked| parked.id == id) {
            self.parked = None;
        }
        self.take_inbox();
        let mut before = None;
        let mut node = self.flushing;
        while let Some((listed, queue)) = node.get() {
            let Some(slot) = self.view.qp(listed) else {
                break;
            };
            let link = slot.queue(queue).link();
            let next = list::next(link);
            if listed == id {
                match before {
                    Some(before) => list::set(before, next),
                    None => self.flushing = next,
                }
            } else {
                before = Some(link);
            }
            node = next;
        }
        // The next poll finds out what there is to do.
        self.settled = NEVER;
    }
}
