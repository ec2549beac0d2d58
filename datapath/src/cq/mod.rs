//! The completion queue: entries that the device wrote, returned by value.
//!
//! No part of an entry is trusted before it was compared with what this side remembers: the
//! context with the slot of the QP, the index with the tracker of the request. What does not fit
//! is counted ([`Counters`]) and skipped, and moves no QP.
//!
//! # Order
//! For each entry: valid bit (acquire), `from_device`, the rest, then the head
//! index to the shadow area.

use core::fmt;

use e810_hal::regs::PFPE_CQARM;
use e810_hal::{Barrier, Bus, DmaWord, DmaWords};

use crate::arm::{ArmPolicy, ArmWord, Notify};
use crate::error::{Bound, SizeError};
use crate::sizing::{CqSize, MAX_CQE, QUANTUM_WORDS};
use crate::slot::{CqKey, CqLines, CqSlot, Node, PollerView, SlotMemory, Slots};
use crate::status::{WcOpcode, WcStatus, opcode};
use crate::track::Tag;
use crate::wc::{Sender, Wc};

mod batch;
mod entry;
mod fast_path;
mod flush;
mod forget_gone;
mod request;
mod resize;
mod slow_path;
mod success;
mod waiting;

use entry::VALID;
use flush::{ListTurn, PendingFlush};
use resize::Resizes;

/// Entries that were not completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counters {
    /// Entries of a QP that does not exist (any more): expected after destroying one.
    pub stale: u64,
    /// Entries that no working device writes: index not outstanding, another CQ's QP, a success
    /// that nobody asked for.
    pub malformed: u64,
    /// Flush entries of queues that had nothing left: expected, since the first one already stood
    /// for all.
    pub late_flushes: u64,
    /// Completions of requests of a flushed queue that software had already completed: the device
    /// took longer than software waits for it.
    pub late: u64,
    /// Receives that the device passed over. They never complete.
    pub receives_passed_over: u64,
}

/// A completion queue. `P` rings the doorbell, `W` is the ring and the shadow
/// area, `M` the slot table.
pub struct CompletionQueue<P, W, M: SlotMemory> {
    platform: P,
    ring: W,
    shadow: W,
    /// The slots of all QPs and their trackers.
    view: PollerView<M>,
    key: CqKey,
    /// The key's id.
    cq_id: u64,
    /// The key's slot.
    slot: CqLines<M>,
    // As words, which is what they are compared with and published as.
    entries: u64,
    /// The entry the device writes next.
    index: u64,
    /// Its valid bit when it is valid.
    valid: u64,
    /// Times the ring was gone through.
    laps: u64,
    /// The epoch confirmed last (see [`crate::slot`]).
    confirmed_epoch: u64,
    /// The same while there is nothing to do except to look at the ring, else [`NEVER`].
    fast_path_epoch: u64,
    /// An epoch not confirmed yet, and the count of consumed entries from
    /// which it is.
    awaited_epoch: Option<(u64, u64)>,
    /// A flush entry that stands for more requests than were given out yet.
    pending_flush: Option<PendingFlush>,
    /// Who sent the datagram of the entry that took the slow path last.
    sender: Option<Sender>,
    /// Work queues to flush whenever the ring is empty, or was not for long.
    flush_list: Node,
    list_turn: ListTurn,
    /// Entries that had been consumed when they were flushed last.
    list_flushed_at: u64,
    resizes: Resizes<W>,
    arm: ArmWord,
    policy: ArmPolicy,
    /// Events taken so far.
    events: u64,
    counters: Counters,
}

/// An epoch that is never raised.
const NEVER: u64 = u64::MAX;

/// Why the fast path stopped.
enum Stop {
    /// `out` is full.
    Full,
    /// There is no entry.
    Empty,
    /// The entry at the head is valid, or may be, and takes the slow path.
    SlowPath,
}

/// Index of the head in the shadow area, in words (data-path 3).
const SHADOW_HEAD: usize = 0;
/// Index of the arm word in the shadow area.
const SHADOW_ARM: usize = 4;

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> CompletionQueue<P, W, M> {
    /// The completion queue `cq` of `entries` entries ([`CqSize`]) on `ring` and `shadow` (64
    /// bytes), both zeroed. The arm word continues from what the shadow area holds.
    ///
    /// # Errors
    /// [`SizeError`] when the memory is too small, or `CQ` when it does not
    /// exist.
    pub fn new(
        platform: P,
        ring: W,
        shadow: W,
        slots: Slots<M>,
        cq: CqKey,
        entries: u32,
    ) -> Result<Self, SizeError> {
        let slot = slots.cq_lines(cq.id());
        let slot = slot.filter(|slot| CqSlot::new(slot).is(cq));
        let (Some(slot), Some(view)) = (slot, PollerView::new(&slots)) else {
            return Err(SizeError {
                field: "CQ",
                value: cq.id().into(),
                bound: Bound::Exactly(cq.bits()),
            });
        };
        let most = CqSize::new(MAX_CQE).map_or(0, |size| size.entries);
        if entries > most {
            return Err(SizeError {
                field: "CQ entries",
                value: entries.into(),
                bound: Bound::AtMost(most.into()),
            });
        }
        let words = u64::from(entries).wrapping_mul(QUANTUM_WORDS as u64);
        for (field, value, least) in [
            // An entry and its extension have to fit.
            ("CQ entries", u64::from(entries), 2),
            ("CQ words", ring.words().len() as u64, words),
            ("CQ shadow words", shadow.words().len() as u64, 8),
        ] {
            if value < least {
                return Err(SizeError {
                    field,
                    value,
                    bound: Bound::AtLeast(least),
                });
            }
        }
        let arm = shadow.words().get(SHADOW_ARM).map_or(0, DmaWord::get);
        let epoch = CqSlot::new(&slot).confirmed();
        Ok(Self {
            platform,
            ring,
            shadow,
            slot,
            view,
            key: cq,
            cq_id: cq.id().into(),
            entries: entries.into(),
            index: 0,
            valid: VALID,
            laps: 0,
            confirmed_epoch: epoch,
            fast_path_epoch: epoch,
            awaited_epoch: None,
            pending_flush: None,
            sender: None,
            flush_list: Node::END,
            list_turn: ListTurn::default(),
            list_flushed_at: 0,
            resizes: Resizes::none(),
            arm: ArmWord::from_bits(arm),
            policy: ArmPolicy::default(),
            events: 0,
            counters: Counters::default(),
        })
    }

    /// Fills `out` from the front with completions and returns their number: with [`Wc`]s, or
    /// with a program's own type, which is written in place.
    ///
    /// Fewer than asked for means that the queue was empty. A QP that the device stopped
    /// completes nothing until the control path has moved it to ERR and flushed it: a program
    /// that only polls has to call its `Control::progress` in the same loop.
    #[inline]
    pub fn poll<C: From<Wc>>(&mut self, out: &mut [C]) -> usize {
        if !self.takes_fast_path() {
            return self.poll_with_work(out);
        }
        // An empty queue is polled most often, and costs little.
        let Some(([q0, q1, _, _], q3)) = self.valid_entry() else {
            return 0;
        };
        let [wc] = out else {
            return self.poll_batch(out);
        };
        self.platform.from_device();
        let q1 = q1.get();
        if entry::is_send(q3) {
            self.poll_send(wc, q3, q1)
        } else {
            self.poll_receive(wc, q3, q1, q0.get())
        }
    }

    /// Whether there is nothing to poll and nothing to do. May return `false` although a poll
    /// then finds nothing.
    #[inline(always)]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        // In this order: see `confirm`.
        self.takes_fast_path() && self.valid_entry().is_none()
    }

    /// Takes one completion; for a received datagram also where it came from, for which a [`Wc`]
    /// has no room. `None` when there is no completion.
    pub fn poll_with_sender(&mut self) -> Option<(Wc, Option<Sender>)> {
        let mut wc = Wc::default();
        self.sender = None;
        let done = self.poll(core::slice::from_mut(&mut wc));
        (done > 0).then_some((wc, self.sender))
    }

    #[inline(never)]
    fn poll_batch<C: From<Wc>>(&mut self, out: &mut [C]) -> usize {
        match self.poll_common(out) {
            (done, Stop::Full | Stop::Empty) => done,
            (done, Stop::SlowPath) => self.poll_slow(out, done),
        }
    }

    #[inline(never)]
    fn poll_with_work<C: From<Wc>>(&mut self, out: &mut [C]) -> usize {
        let mut done = 0;
        if self.pending_flush.is_none() && self.lives() {
            done = self.flush_while_busy(out);
            let rest = out.get_mut(done..).unwrap_or_default();
            done = done.wrapping_add(self.poll_common(rest).0);
        }
        self.poll_slow(out, done)
    }

    /// Whether the CQ still exists: its slot may be another's.
    #[must_use]
    pub fn lives(&self) -> bool {
        self.cq_slot().is(self.key)
    }

    /// The own slot.
    #[inline(always)]
    fn cq_slot(&self) -> CqSlot<'_, M::Atom> {
        CqSlot::new(&self.slot)
    }

    /// Whether there is nothing to do except to poll. Must be checked before the ring is looked
    /// at: see `confirm`.
    #[inline(always)]
    fn takes_fast_path(&self) -> bool {
        self.cq_slot().epoch() == self.fast_path_epoch
    }

    /// The entry at the head, if it is valid, and its header without the valid
    /// bit.
    #[inline(always)]
    fn valid_entry(&self) -> Option<([&W::Word; QUANTUM_WORDS], u64)> {
        let entry = entry_at(self.ring.words(), self.index)?;
        let [_, _, _, header] = entry;
        let q3 = header.observe() ^ self.valid;
        (q3 & VALID == 0).then_some((entry, q3))
    }

    /// Asks for an event at the next completion. Returns whether there is something to poll now
    /// (IB_CQ_REPORT_MISSED_EVENTS): after `true`, poll again before waiting.
    ///
    /// The next completion is the next one that was not polled yet: the device compares its own
    /// count with the head in the shadow area when it takes the request, so a completion that the
    /// last poll missed raises the event at once.
    #[must_use = "when there is something to poll, poll before waiting"]
    pub fn arm(&mut self, notify: Notify) -> bool {
        loop {
            let pending = self.cq_slot().pending(self.key);
            match self.policy.request(notify, pending) {
                Some(notify) => break self.arm_hardware(notify),
                // Unless the event comes just now, which then was no answer.
                None if self.cq_slot().want(self.key, pending) => break,
                None => {}
            }
        }
        self.has_more()
    }

    /// Whether an event came since the last call. After an event the queue has to be armed again
    /// for the next one. Call this from the thread that waits for the queue, once it was woken.
    pub fn take_event(&mut self) -> bool {
        let events = self.cq_slot().events(self.key);
        let Some(events) = events.filter(|events| *events != self.events) else {
            return false;
        };
        self.events = events;
        true
    }

    /// Whether the device reported the queue as failed, in practice because it
    /// overflowed: more completions were outstanding than it has entries for.
    /// What is in the ring can still be polled; what came after is lost, and
    /// the QPs on it have to be destroyed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.cq_slot().has_failed(self.key)
    }

    /// Entries that were not completions.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Entries of the ring. A completion takes one, with immediate data two;
    /// requests outstanding on all its QPs should not need more.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.entries as u32
    }

    /// The queue's key.
    #[must_use]
    pub fn key(&self) -> CqKey {
        self.key
    }

    /// Gives the rings (more than one after a resize) to `release`, and then the
    /// shadow area, once the CQ is destroyed.
    pub fn into_memory(self, mut release: impl FnMut(W)) {
        self.resizes.into_rings(&mut release);
        release(self.ring);
        release(self.shadow);
    }

    fn arm_hardware(&mut self, notify: Notify) {
        if !self.cq_slot().ask(self.key) {
            // Its number may be another's.
            return;
        }
        self.arm = self.arm.request(notify);
        if let Some(word) = self.shadow.words().get(SHADOW_ARM) {
            word.publish(self.arm.bits());
        }
        self.platform.to_device();
        PFPE_CQARM.set(&self.platform, self.key.id());
    }
}

/// The words of the entry at `index`.
///
/// The last word is looked up first: where there is one, there are those before
/// it, which the compiler sees, so that this is one comparison.
#[inline(always)]
fn entry_at<C>(cells: &[C], index: u64) -> Option<[&C; QUANTUM_WORDS]> {
    let first = (index as usize).wrapping_mul(QUANTUM_WORDS);
    let q3 = cells.get(first | 3)?;
    Some([
        cells.get(first)?,
        cells.get(first | 1)?,
        cells.get(first | 2)?,
        q3,
    ])
}

impl<P, W, M: SlotMemory> fmt::Debug for CompletionQueue<P, W, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue")
            .field("key", &self.key)
            .field("entries", &self.entries)
            .field("index", &self.index)
            .field("laps", &self.laps)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// Status and operation of a successful send entry. 09 and 0b have a meaning
/// only when that is what was posted; a code without one is an error (data-path
/// 4.5), and the operation is what was posted, as far as that has a name.
fn sent_opcode(op: u8, tag: Tag) -> (WcStatus, WcOpcode) {
    match WcOpcode::of_sq(op) {
        Some(opcode) => (WcStatus::Success, opcode),
        None if op == tag.opcode() && op == opcode::FAST_REGISTER => {
            (WcStatus::Success, WcOpcode::RegMr)
        }
        None if op == tag.opcode() && op == opcode::READ_LOCAL_INV => {
            (WcStatus::Success, WcOpcode::RdmaRead)
        }
        None if op == tag.opcode() && op == opcode::NOP => (WcStatus::Success, WcOpcode::Nop),
        None => (WcStatus::GeneralErr, posted_opcode(tag)),
    }
}

/// The operation that was posted.
fn posted_opcode(tag: Tag) -> WcOpcode {
    match tag.opcode() {
        opcode::FAST_REGISTER => WcOpcode::RegMr,
        opcode::READ_LOCAL_INV => WcOpcode::RdmaRead,
        opcode::NOP => WcOpcode::Nop,
        op => WcOpcode::of_sq(op).unwrap_or_default(),
    }
}

/// Wire opcodes of a write with immediate, or anything else (data-path 4.5).
#[inline(always)]
fn received_opcode(op: u8) -> WcOpcode {
    if op == opcode::WIRE_WRITE_LAST_IMM || op == opcode::WIRE_WRITE_ONLY_IMM {
        WcOpcode::RecvRdmaWithImm
    } else {
        WcOpcode::Recv
    }
}
