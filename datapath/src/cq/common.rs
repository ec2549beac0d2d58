//! The common entries: success of a connected QP, without immediate data or
//! invalidation.

use e810_hal::{Barrier, Bus, Cell, Words};

use super::entry::{self, UNUSUAL, VALID};
use super::{CompletionQueue, SHADOW_HEAD, Stop, received_opcode};
use crate::error::Queue;
use crate::sizing::QUANTUM_WORDS;
use crate::slot::{Atom, QueueLine, SlotMemory, Tables};
use crate::status::{WcOpcode, WcStatus};
use crate::track::{self, Tag};
use crate::wc::{Wc, WcFlags};

impl<P: Bus + Barrier, W: Words, M: SlotMemory> CompletionQueue<P, W, M> {
    /// As [`take_common`](Self::take_common) for one entry.
    #[inline(always)]
    pub(super) fn take_one_common(&mut self, wc: &mut Wc) -> (usize, Stop) {
        let (entries, _) = self.ring.cells().as_chunks::<QUANTUM_WORDS>();
        let Some(entry) = entries.get(self.index as usize) else {
            return (0, Stop::LongWay);
        };
        let [_, _, _, header] = entry;
        let q3 = header.observe();
        let differs = q3 ^ self.valid;
        if differs & VALID != 0 {
            return (0, Stop::Empty);
        }
        self.platform.from_device();
        let next = self.index.wrapping_add(1);
        if differs & UNUSUAL != 0 || next >= self.entries {
            return (0, Stop::LongWay);
        }
        let (Some(tables), Some(shadow)) =
            (self.slots.tables(), self.shadow.cells().get(SHADOW_HEAD))
        else {
            return (0, Stop::LongWay);
        };
        if complete(tables, self.cq_id.into(), entry, q3, wc).is_none() {
            return (0, Stop::LongWay);
        }
        self.index = next;
        // Release: the entry was read before the device may reuse it.
        shadow.publish(next.into());
        (1, Stop::Full)
    }

    /// Takes entries as long as they are of the common kind: success of a
    /// connected QP, without immediate data or invalidation. Anything else, and
    /// the last entry of the ring, is left at the head.
    #[inline(always)]
    pub(super) fn take_common(&mut self, out: &mut [Wc]) -> (usize, Stop) {
        let Some(tables) = self.slots.tables() else {
            return (0, Stop::LongWay);
        };
        let cq = u64::from(self.cq_id);
        let (entries, _) = self.ring.cells().as_chunks::<QUANTUM_WORDS>();
        let last = self.entries.wrapping_sub(1) as usize;
        let entries = entries.get(self.index as usize..last);
        let (Some(entries), Some(shadow)) = (entries, self.shadow.cells().get(SHADOW_HEAD)) else {
            return (0, Stop::LongWay);
        };
        let valid = self.valid;
        let mut index = self.index;
        let mut stop = if entries.len() < out.len() {
            Stop::LongWay
        } else {
            Stop::Full
        };
        for (entry, wc) in entries.iter().zip(out) {
            let [_, _, _, header] = entry;
            let q3 = header.observe();
            let differs = q3 ^ valid;
            if differs & (VALID | UNUSUAL) != 0 {
                stop = if differs & VALID != 0 {
                    Stop::Empty
                } else {
                    Stop::LongWay
                };
                break;
            }
            self.platform.from_device();
            if complete(tables, cq, entry, q3, wc).is_none() {
                stop = Stop::LongWay;
                break;
            }
            index = index.wrapping_add(1);
            // Release: the entry was read before the device may reuse it.
            shadow.publish(index.into());
        }
        let done = index.wrapping_sub(self.index) as usize;
        self.index = index;
        (done, stop)
    }
}

/// Completes the request that a common entry names. `None`, with nothing
/// changed, for an entry that needs a closer look.
#[inline(always)]
fn complete<A: Atom, C: Cell>(
    tables: Tables<'_, A>,
    cq: u64,
    entry: &[C; 4],
    q3: u64,
    wc: &mut Wc,
) -> Option<()> {
    let [q0, q1, q2, _] = entry;
    let (context, qp_id) = (q1.get(), entry::qp_id(q2.get()));
    let slot = tables.qp(qp_id)?;
    // The two arms are alike but for constants, which saves choosing them.
    let (wr_id, opcode, byte_len) = if entry::is_send(q3) {
        let line = slot.queue(Queue::Send);
        if !line.guard().admits(context, qp_id, cq) {
            return None;
        }
        let request = Request::named(tables.trackers, line, q3)?;
        let opcode = WcOpcode::of_sq(entry::op(q3))?;
        if !request.tag.is_expected() {
            return None;
        }
        (request.retire(line), opcode, request.tag.bytes())
    } else {
        let line = slot.queue(Queue::Recv);
        if !line.guard().admits(context, qp_id, cq) {
            return None;
        }
        let request = Request::named(tables.trackers, line, q3)?;
        if !request.tag.is_expected() || request.ahead != request.tag.quanta() {
            return None;
        }
        let opcode = received_opcode(entry::op(q3));
        let byte_len = entry::payload_bytes(q0.get());
        (request.retire(line), opcode, byte_len)
    };
    *wc = Wc {
        wr_id,
        byte_len,
        qp_num: qp_id,
        src_qp: qp_id,
        imm: 0,
        vendor_err: 0,
        flags: WcFlags::empty(),
        status: WcStatus::Success,
        opcode,
    };
    Some(())
}

/// An outstanding request.
pub(super) struct Request<'a, A> {
    pub(super) tracker: &'a [A; 2],
    pub(super) tag: Tag,
    /// Position of the oldest outstanding one, and how far from it this one
    /// ends.
    tail: u64,
    pub(super) ahead: u64,
}

impl<'a, A: Atom> Request<'a, A> {
    /// The outstanding request whose first quantum is at the entry's index.
    #[inline(always)]
    pub(super) fn named(trackers: &'a [[A; 2]], line: QueueLine<'_, A>, q3: u64) -> Option<Self> {
        let index = entry::wqe_index(q3);
        let mask = line.mask();
        if index > mask {
            return None;
        }
        let tracker = trackers.get(line.trackers().wrapping_add(index as usize))?;
        let tag = track::tag(tracker);
        let tail = line.own_tail();
        let ahead = tag.end_after(tail);
        (ahead.wrapping_sub(1) < mask).then_some(Self {
            tracker,
            tag,
            tail,
            ahead,
        })
    }

    /// Whether it was posted. One that is expected always was; of others, a
    /// tracker that was never written can look like the first.
    pub(super) fn is_before(&self, head: u64) -> bool {
        self.tail.wrapping_add(self.ahead) <= head
    }

    /// It and all before it are done; their trackers are the poster's again.
    /// Gives its wr_id.
    #[inline(always)]
    pub(super) fn retire(&self, line: QueueLine<'_, A>) -> u64 {
        let wr_id = track::wr_id(self.tracker);
        line.set_tail(self.tail.wrapping_add(self.ahead));
        wr_id
    }
}
