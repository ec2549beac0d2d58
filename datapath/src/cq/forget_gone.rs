//! Removing QPs that are gone from the queue: at once, by its owner, where nobody may poll for
//! long.

use e810_hal::{Barrier, Bus, DmaWord, DmaWords};

use super::entry::{VALID, has_extension, queue};
use super::{CompletionQueue, NEVER};
use crate::slot::{SlotMemory, id_in};
use crate::wc::Wc;

/// In the header of an entry, where nothing here reads it: it is the second of two.
const SECOND: u64 = 1 << 51;

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> CompletionQueue<P, W, M> {
    /// Forgets QPs that are hidden ([`Registry::hide_qp`](crate::Registry::hide_qp)): a flush
    /// that is under way, their places among the queues to flush, and their entries in the ring,
    /// whose places become free. Completions of other QPs stay, in their order.
    ///
    /// A poll that finds the ring empty does as much as is needed to reuse their ids
    /// ([`Registry::reap`](crate::Registry::reap)). This does it without a poll, after
    /// [`Registry::retire`](crate::Registry::retire). It is required before
    /// [`Registry::reopen`](crate::Registry::reopen). It looks at each waiting entry at most
    /// twice; after a resize, at the entries of the ring that is polled.
    pub fn forget_gone(&mut self) {
        if !self.lives() {
            return;
        }
        // Before anything is looked at: what is hidden later raises another one.
        let epoch = self.cq_slot().epoch();
        self.pending_flush = self.pending_flush.filter(|flush| {
            let slot = self.view.qp(flush.id);
            slot.is_some_and(|slot| slot.has_context(flush.context))
        });
        self.complete_flush_list::<Wc>(&mut []);
        self.take_out_gone();
        self.confirm(epoch);
        // The next poll finds out what there is to do.
        self.fast_path_epoch = NEVER;
    }

    /// Moves the entries that stay to the end, over those that do not, and the head to the first.
    /// The device writes behind the last entry that it has written, whatever comes before.
    fn take_out_gone(&mut self) {
        let Waiting {
            entries,
            stay,
            gone,
        } = self.mark_seconds();
        if stay == entries {
            return;
        }
        self.counters.stale = self.counters.stale.wrapping_add(gone);
        let (mut from, mut to) = (entries, entries);
        while from > 0 {
            let last = from.wrapping_sub(1);
            let is_second = self.valid_header(last).is_some_and(|q3| q3 & SECOND != 0);
            from = last.wrapping_sub(u64::from(is_second));
            if self.is_gone(from) {
                continue;
            }
            for entry in (from..=last).rev() {
                to = to.wrapping_sub(1);
                self.copy(entry, to);
            }
        }
        for _ in stay..entries {
            self.advance();
        }
    }

    /// Marks entries that are the second of two, so that they can be recognised from behind, and
    /// counts the waiting entries.
    fn mark_seconds(&self) -> Waiting {
        let mut waiting = Waiting::default();
        let at = |entry: u64| self.valid_header(entry).filter(|_| entry < self.entries);
        while let Some(q3) = at(waiting.entries) {
            let first = waiting.entries;
            let mut count = 1;
            if has_extension(q3) {
                // One whose extension is still to come stays where it is.
                let second = first.wrapping_add(1);
                let Some(q3) = at(second) else {
                    break;
                };
                self.set_header(second, q3 | SECOND);
                count = 2;
            }
            self.set_header(first, q3 & !SECOND);
            if self.is_gone(first) {
                waiting.gone = waiting.gone.wrapping_add(1);
            } else {
                waiting.stay = waiting.stay.wrapping_add(count);
            }
            waiting.entries = first.wrapping_add(count);
        }
        waiting
    }

    /// Index of the entry that is so many after the head, and its valid bit.
    fn place(&self, after: u64) -> (u64, u64) {
        let index = self.index.wrapping_add(after);
        match index.checked_sub(self.entries) {
            Some(index) => (index, self.valid ^ VALID),
            None => (index, self.valid),
        }
    }

    /// Its header, if it is valid.
    fn valid_header(&self, after: u64) -> Option<u64> {
        let (index, valid) = self.place(after);
        let [.., header] = self.entry(index)?;
        let q3 = header.observe();
        self.platform.from_device();
        ((q3 ^ valid) & VALID == 0).then_some(q3)
    }

    fn set_header(&self, after: u64, q3: u64) {
        if let Some([.., header]) = self.entry(self.place(after).0) {
            header.set(q3);
        }
    }

    /// Whether it is of a QP that is no more.
    fn is_gone(&self, after: u64) -> bool {
        let Some([_, q1, _, q3]) = self.entry(self.place(after).0) else {
            return false;
        };
        let (context, id) = (q1.get(), id_in(q1.get()));
        self.view.qp(id).is_none_or(|slot| {
            let guard = slot.queue(queue(q3.get())).guard();
            !guard.admits_any(context, id, self.cq_id) && !slot.has_context(context)
        })
    }

    /// Copies an entry to a place with the valid bit of its own.
    fn copy(&self, from: u64, to: u64) {
        let ((from, _), (to, valid)) = (self.place(from), self.place(to));
        if let (Some([q0, q1, q2, q3]), Some([to_q0, to_q1, to_q2, to_q3])) =
            (self.entry(from), self.entry(to))
        {
            to_q0.set(q0.get());
            to_q1.set(q1.get());
            to_q2.set(q2.get());
            to_q3.publish(q3.get() & !VALID | valid);
        }
    }
}

/// What waits to be polled.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    entries: u64,
    /// Entries of QPs that live.
    stay: u64,
    /// Completions of those that do not, of one entry or two.
    gone: u64,
}
