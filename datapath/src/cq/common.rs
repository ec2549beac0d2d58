//! The common entries: success of a connected QP, without immediate data or
//! invalidation; of receives, that of a send.

use e810_hal::{Barrier, Bus, Cell, Words};

use super::entry::{self, SEND, UNUSUAL, VALID};
use super::request::Request;
use super::{CompletionQueue, SHADOW_HEAD, Stop, received_opcode};
use crate::error::Queue;
use crate::sizing::QUANTUM_WORDS;
use crate::slot::{Atom, QueueLine, SlotMemory, Tables};
use crate::status::{WcOpcode, WcStatus};
use crate::track::{self, Tracker};
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
        let Some(shadow) = self.shadow.cells().get(SHADOW_HEAD) else {
            return (0, Stop::LongWay);
        };
        if complete(self.view.tables(), self.cq_id.into(), entry, q3, wc).is_none() {
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
    pub(super) fn take_common(&mut self, mut out: &mut [Wc]) -> (usize, Stop) {
        let (entries, _) = self.ring.cells().as_chunks::<QUANTUM_WORDS>();
        let last = self.entries.wrapping_sub(1) as usize;
        let entries = entries.get(self.index as usize..last);
        let (Some(mut entries), Some(shadow)) = (entries, self.shadow.cells().get(SHADOW_HEAD))
        else {
            return (0, Stop::LongWay);
        };
        let mut index = self.index;
        let stop = loop {
            if out.is_empty() {
                break Stop::Full;
            }
            let Some(entry) = entries.first() else {
                break Stop::LongWay;
            };
            let [_, _, _, header] = entry;
            let q3 = header.observe();
            let differs = q3 ^ self.valid;
            if differs & VALID != 0 {
                break Stop::Empty;
            }
            self.platform.from_device();
            if differs & UNUSUAL != 0 {
                break Stop::LongWay;
            }
            let taken = match Run::begin(self.view.tables(), self.cq_id.into(), entry, q3) {
                Some(run) if entry::is_send(q3) => {
                    run.take::<_, _, _, true>(&self.platform, entries, out, shadow, index)
                }
                Some(run) => {
                    run.take::<_, _, _, false>(&self.platform, entries, out, shadow, index)
                }
                None => 0,
            };
            if taken == 0 {
                break Stop::LongWay;
            }
            index = index.wrapping_add(taken as u32);
            entries = entries.get(taken..).unwrap_or_default();
            out = out.get_mut(taken..).unwrap_or_default();
        };
        let done = index.wrapping_sub(self.index) as usize;
        self.index = index;
        (done, stop)
    }
}

/// Consecutive entries of one work queue.
///
/// The guard is looked at once, at the first of them: the slot of a QP that is
/// hidden meanwhile is not opened again before this poller has confirmed an
/// epoch, which it does when it is done with these entries. The tail moves
/// once, after the last of them.
struct Run<'a, A> {
    context: u64,
    qp_id: u32,
    /// Valid bit and SQ, as in the first entry.
    alike: u64,
    line: QueueLine<'a, A>,
    trackers: &'a [[A; track::WORDS]],
}

impl<'a, A: Atom> Run<'a, A> {
    /// The run that begins with a common entry. `None` for an entry that needs a
    /// closer look.
    #[inline(always)]
    fn begin<C: Cell>(
        tables: Tables<'a, A>,
        cq: u64,
        [_, q1, q2, _]: &[C; 4],
        q3: u64,
    ) -> Option<Self> {
        let (context, qp_id) = (q1.get(), entry::qp_id(q2.get()));
        let line = tables.qp(qp_id)?.queue(entry::queue(q3));
        if !line.guard().admits(context, qp_id, cq) {
            return None;
        }
        Some(Self {
            context,
            qp_id,
            alike: q3 & (VALID | SEND),
            line,
            trackers: tables.of(line)?,
        })
    }

    /// Takes entries of the run from the front of `entries`, the first of which
    /// has ring index `index`, as long as they are common ones in order; says
    /// how many.
    #[inline(never)]
    fn take<P: Barrier, C: Cell, S: Cell, const IS_SEND: bool>(
        &self,
        platform: &P,
        entries: &[[C; 4]],
        out: &mut [Wc],
        shadow: &S,
        index: u32,
    ) -> usize {
        let mask = (self.trackers.len() as u64).wrapping_sub(1);
        let mut tail = self.line.own_tail();
        let mut next = index;
        for (entry, wc) in entries.iter().zip(out) {
            let [q0, q1, q2, header] = entry;
            let q3 = header.observe();
            if (q3 ^ self.alike) & (VALID | SEND | UNUSUAL) != 0 {
                break;
            }
            platform.from_device();
            if q1.get() != self.context || entry::qp_id(q2.get()) != self.qp_id {
                break;
            }
            let at = entry::wqe_index(q3);
            let Some(tracker) = self.trackers.get(at as usize) else {
                break;
            };
            let tracker = Tracker(tracker);
            let end = tracker.end();
            if end.wrapping_sub(tail).wrapping_sub(1) >= mask {
                break;
            }
            let (opcode, byte_len) = if IS_SEND {
                let tag = tracker.tag();
                if !tag.is_expected() {
                    break;
                }
                let Some(opcode) = WcOpcode::of_sq(entry::op(q3)) else {
                    break;
                };
                (opcode, tag.bytes())
            } else {
                // Receives are all expected; but others were passed over, if this
                // is not the oldest one.
                if at != tail & mask || received_opcode(entry::op(q3)) != WcOpcode::Recv {
                    break;
                }
                (WcOpcode::Recv, entry::payload_bytes(q0.get()))
            };
            *wc = success(tracker.wr_id(), byte_len, self.qp_id, opcode);
            tail = end;
            next = next.wrapping_add(1);
            // Release: the entry was read before the device may reuse it.
            shadow.publish(next.into());
        }
        self.line.set_tail(tail);
        next.wrapping_sub(index) as usize
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
        let tag = request.tracker.tag();
        let opcode = WcOpcode::of_sq(entry::op(q3))?;
        if !tag.is_expected() {
            return None;
        }
        (request.retire(line), opcode, tag.bytes())
    } else {
        let line = slot.queue(Queue::Recv);
        if !line.guard().admits(context, qp_id, cq) {
            return None;
        }
        let request = Request::named(tables.trackers, line, q3)?;
        if !request.is_oldest(line, q3) || received_opcode(entry::op(q3)) != WcOpcode::Recv {
            return None;
        }
        let byte_len = entry::payload_bytes(q0.get());
        (request.retire(line), WcOpcode::Recv, byte_len)
    };
    *wc = success(wr_id, byte_len, qp_id, opcode);
    Some(())
}

#[inline(always)]
fn success(wr_id: u64, byte_len: u32, qp_num: u32, opcode: WcOpcode) -> Wc {
    Wc {
        wr_id,
        byte_len,
        qp_num,
        src_qp: qp_num,
        imm: 0,
        vendor_err: 0,
        flags: WcFlags::empty(),
        status: WcStatus::Success,
        opcode,
    }
}
