//! Flushing: completions for requests of a QP in error.
//!
//! The sources do not say whether the device writes one flush entry for a queue or one for each
//! request, so both work here. The first entry completes everything that is outstanding, in
//! order, from the trackers; entries that find nothing left are dropped, and the batch continues.
//! A queue that was flushed once stays on a list, and so do queues that control sweeps
//! ([`Registry::sweep`](crate::Registry::sweep)). When the ring is empty, requests that were
//! posted to them meanwhile are completed as well; on a ring that is never empty, once for as
//! many entries as it holds. Each request completes once, because only this poller moves the
//! queue's tail.
//!
//! The list may be long, as of connections that are over and keep their queue pair in ERR for a
//! while. So it is gone through only when a producer says that it has posted in error, and at each
//! [`SELDOM`]th empty ring: a post that began before the change to ERR does not know of it.

use e810_hal::{Barrier, Bus, DmaWords};
use e810_types::{FlushCode, WorkQueue};

use super::entry::vendor_error;
use super::success::completion;
use super::{CompletionQueue, posted_opcode};
use crate::slot::{Atom, Node, QpSlot, SlotMemory, list};
use crate::status::{WcOpcode, WcStatus};
use crate::track::{self, Tracker};
use crate::wc::Wc;

/// A flush entry at work.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingFlush {
    pub(super) id: u32,
    /// The entry's context: the QP may be gone before all is given out.
    pub(super) context: u64,
    pub(super) queue: WorkQueue,
    pub(super) flush: Flush,
    /// It completed something.
    pub(super) used: bool,
}

/// Codes of the completions of a flush.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flush {
    pub(super) major: u16,
    /// Code of the next completion; general afterwards.
    pub(super) code: FlushCode,
}

/// Empty rings after which the list is gone through without a reason.
const SELDOM: u8 = 16;

/// When the queues of the list have their turn.
#[derive(Debug, Default)]
pub(super) struct ListTurn {
    /// There was no room for all of their completions, or one of them is new.
    is_due: bool,
    /// Posts in error that the last turn knew of.
    posted: u64,
    /// Empty rings since then.
    skipped: u8,
}

/// Major code of a flush (data-path 4.4).
const MAJOR_FLUSH: u16 = 1;

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> CompletionQueue<P, W, M> {
    /// Continues with the parked flush entry.
    pub(super) fn drain_pending_flush<C: From<Wc>>(&mut self, out: &mut [C]) -> usize {
        let Some(mut pending_flush) = self.pending_flush.take() else {
            return 0;
        };
        let slot = self
            .view
            .qp(pending_flush.id)
            .filter(|slot| slot.has_context(pending_flush.context));
        let Some(slot) = slot else {
            return 0;
        };
        let of = (slot, pending_flush.id, pending_flush.queue);
        let done = drain(self.view.trackers(), of, &mut pending_flush.flush, out);
        pending_flush.used |= done > 0;
        if done == out.len() {
            // There may be more; the next call finds out.
            self.pending_flush = Some(pending_flush);
        } else if !pending_flush.used {
            self.counters.late_flushes = self.counters.late_flushes.wrapping_add(1);
        }
        done
    }

    /// The ring is empty: everything the device wrote before `epoch` was raised
    /// is behind us.
    pub(super) fn ring_is_empty<C: From<Wc>>(
        &mut self,
        epoch: u64,
        out: &mut [C],
        done: usize,
    ) -> usize {
        // What control wants noticed comes with an epoch.
        let is_new = epoch != self.confirmed_epoch;
        if !is_new && !self.is_list_due() {
            return done;
        }
        let rest = out.get_mut(done..).unwrap_or_default();
        let more = self.complete_flush_list(rest);
        self.list_flushed_at = self.consumed();
        if is_new {
            self.confirm(epoch);
        }
        done.wrapping_add(more)
    }

    fn is_list_due(&mut self) -> bool {
        let posted = self.cq_slot().posted_in_error();
        let turn = &mut self.list_turn;
        turn.skipped = turn.skipped.wrapping_add(1);
        turn.is_due || turn.posted != posted || turn.skipped >= SELDOM
    }

    /// A queue has come to the list.
    pub(super) const fn enlisted(&mut self, list: Node) {
        self.flush_list = list;
        self.list_turn.is_due = true;
    }

    /// The queues of the list have their turn although the ring is not empty, once as many
    /// entries as it holds were consumed since their last turn. Everything of theirs that the
    /// device had completed before they came to the list has then been consumed.
    pub(super) fn flush_while_busy<C: From<Wc>>(&mut self, out: &mut [C]) -> usize {
        let since = self.consumed().wrapping_sub(self.list_flushed_at);
        if self.flush_list == Node::END || since < self.entries {
            return 0;
        }
        self.list_flushed_at = self.consumed();
        self.flush_listed(out)
    }

    /// The ring is never empty, but a whole ring of entries later everything
    /// written before `epoch` was raised is behind us too.
    pub(super) fn ring_is_busy(&mut self, epoch: u64) {
        let all = self.consumed().wrapping_add(self.entries);
        let (epoch, until) = *self.awaited_epoch.get_or_insert((epoch, all));
        if self.consumed() >= until {
            self.complete_flush_list::<Wc>(&mut []);
            self.confirm(epoch);
        }
    }

    pub(super) fn confirm(&mut self, epoch: u64) {
        self.awaited_epoch = None;
        self.confirmed_epoch = epoch;
        self.cq_slot().confirm(epoch);
    }

    /// Takes in queues that control wants swept, drops those whose QP is gone, and completes what
    /// the others have outstanding.
    pub(super) fn complete_flush_list<C: From<Wc>>(&mut self, out: &mut [C]) -> usize {
        self.take_inbox();
        self.flush_listed(out)
    }

    fn flush_listed<C: From<Wc>>(&mut self, out: &mut [C]) -> usize {
        // Before the queues are looked at.
        let posted = self.cq_slot().posted_in_error();
        let mut done = 0;
        let mut before = None;
        let mut node = self.flush_list;
        let mut first = node;
        while let Some((id, queue)) = node.get() {
            let Some(slot) = self.view.qp(id) else {
                break;
            };
            let link = slot.queue(queue).link();
            let next = list::next(link);
            if slot.is_live() {
                if let Some(rest) = out.get_mut(done..)
                    && !rest.is_empty()
                {
                    let mut flush = Flush {
                        major: MAJOR_FLUSH,
                        code: first_code(slot, queue),
                    };
                    let of = (slot, id, queue);
                    let more = drain(self.view.trackers(), of, &mut flush, rest);
                    done = done.wrapping_add(more);
                }
                before = Some(link);
            } else {
                match before {
                    Some(before) => list::set(before, next),
                    None => first = next,
                }
            }
            node = next;
        }
        self.flush_list = first;
        self.list_turn = ListTurn {
            is_due: done == out.len(),
            posted,
            skipped: 0,
        };
        done
    }

    /// Moves what is in the inbox to the front of the own list.
    pub(super) fn take_inbox(&mut self) {
        let first = self.cq_slot().take_inbox();
        let mut node = first;
        while let Some((id, queue)) = node.get() {
            let Some(slot) = self.view.qp(id) else {
                return;
            };
            let link = slot.queue(queue).link();
            let next = list::next(link);
            if next == Node::END {
                list::set(link, self.flush_list);
                self.flush_list = first;
            }
            node = next;
        }
    }
}

/// Code of the next completion of a sweep: the cause, if this is the first one
/// of a flush that no entry of the device began.
fn first_code<A: Atom>(slot: QpSlot<'_, A>, queue: WorkQueue) -> FlushCode {
    if slot.queue(queue).begin_flush() {
        slot.cause(queue).unwrap_or(FlushCode::GENERAL)
    } else {
        FlushCode::GENERAL
    }
}

/// Completes outstanding requests of a queue in order until there is no more
/// room, or no more of them.
fn drain<A: Atom, C: From<Wc>>(
    trackers: &[[A; track::WORDS]],
    (slot, id, queue): (QpSlot<'_, A>, u32, WorkQueue),
    flush: &mut Flush,
    out: &mut [C],
) -> usize {
    let line = slot.queue(queue);
    // Acquire: requests before the head have trackers.
    let head = slot.head(queue);
    let mut tail = line.own_tail();
    let mut done = 0;
    while tail < head
        && let Some(place) = out.get_mut(done)
    {
        let index = (tail & line.mask()) as usize;
        let Some(tracker) = trackers.get(line.trackers().wrapping_add(index)) else {
            break;
        };
        let tracker = Tracker(tracker);
        let tag = tracker.tag();
        tail = tail.wrapping_add(tag.quanta());
        if queue == WorkQueue::Send && tag.is_pad() {
            continue;
        }
        let (opcode, byte_len) = match queue {
            WorkQueue::Send => (posted_opcode(tag), tag.bytes()),
            WorkQueue::Recv => (WcOpcode::Recv, 0),
        };
        let code = match flush.code {
            // Kernel drivers report so what the device calls a protection error.
            FlushCode::PROT if opcode == WcOpcode::BindMw => FlushCode::MW_BIND,
            code => code,
        };
        let wc = Wc {
            vendor_err: vendor_error(flush.major, code.0),
            ..completion(
                tracker.wr_id(),
                id,
                WcStatus::of_flush(code),
                (opcode, byte_len),
            )
        };
        *place = wc.into();
        flush.code = FlushCode::GENERAL;
        done = done.wrapping_add(1);
    }
    line.set_tail(tail);
    done
}
