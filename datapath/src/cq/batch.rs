//! The common entries: success of a connected QP, without immediate data or invalidation; for
//! receives, success of a send.

use e810_hal::{Barrier, Bus, DmaWord, DmaWords};

use super::entry::{self, SEND, UNUSUAL, UNUSUAL_RECEIVE, VALID};
use super::success::{completion, received, sent};
use super::{CompletionQueue, SHADOW_HEAD, Stop};
use crate::sizing::QUANTUM_WORDS;
use crate::slot::{Atom, PollerView, QueueLine, SlotMemory, id_in};
use crate::status::WcStatus;
use crate::track::{self, Tracker};
use crate::wc::Wc;

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> CompletionQueue<P, W, M> {
    /// Takes entries as long as they are of the common kind: success of a
    /// connected QP, without immediate data or invalidation. Anything else, and
    /// the last entry of the ring, is left at the head.
    #[inline(always)]
    pub(super) fn poll_common<C: From<Wc>>(&mut self, mut out: &mut [C]) -> (usize, Stop) {
        let (entries, _) = self.ring.words().as_chunks::<QUANTUM_WORDS>();
        let last = self.entries.wrapping_sub(1) as usize;
        let entries = entries.get(self.index as usize..last);
        let (Some(mut entries), Some(shadow)) = (entries, self.shadow.words().get(SHADOW_HEAD))
        else {
            return (0, Stop::SlowPath);
        };
        let mut index = self.index;
        let stop = loop {
            if out.is_empty() {
                break Stop::Full;
            }
            let Some(entry) = entries.first() else {
                break Stop::SlowPath;
            };
            let [_, _, _, header] = entry;
            let q3 = header.observe();
            let differs = q3 ^ self.valid;
            if differs & VALID != 0 {
                break Stop::Empty;
            }
            self.platform.from_device();
            if differs & UNUSUAL != 0 {
                break Stop::SlowPath;
            }
            let taken = match Batch::begin(&self.view, self.cq_id, entry, q3) {
                Some(batch) if entry::is_send(q3) => {
                    batch.take::<_, _, _, _, true>(&self.platform, entries, out, shadow, index)
                }
                Some(batch) => {
                    batch.take::<_, _, _, _, false>(&self.platform, entries, out, shadow, index)
                }
                None => 0,
            };
            if taken == 0 {
                break Stop::SlowPath;
            }
            index = index.wrapping_add(taken as u64);
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
/// The guard is checked once, at the first of them: the slot of a QP that is hidden meanwhile is
/// not opened again before this poller has confirmed an epoch, which it does once it is done with
/// these entries. The tail moves once, after the last of them.
struct Batch<'a, A> {
    context: u64,
    qp_id: u32,
    /// Valid bit and SQ, as in the first entry.
    alike: u64,
    line: QueueLine<'a, A>,
    trackers: &'a [[A; track::WORDS]],
}

impl<'a, A: Atom> Batch<'a, A> {
    /// The run that begins with a common entry. `None` for an entry that needs a closer look.
    #[inline(always)]
    fn begin<M: SlotMemory<Atom = A>, C: DmaWord>(
        view: &'a PollerView<M>,
        cq: u64,
        [_, q1, _, _]: &[C; 4],
        q3: u64,
    ) -> Option<Self> {
        let context = q1.get();
        let qp_id = id_in(context);
        let line = view.qp(qp_id)?.queue(entry::queue(q3));
        if !line.guard().admits(context, qp_id, cq) {
            return None;
        }
        Some(Self {
            context,
            qp_id,
            alike: q3 & (VALID | SEND),
            line,
            trackers: view.trackers_of(line)?,
        })
    }

    /// Takes entries of the run from the front of `entries`, the first of which has ring index
    /// `index`, as long as they are common ones in order; returns their number.
    #[inline(never)]
    fn take<P: Barrier, E: DmaWord, S: DmaWord, C: From<Wc>, const IS_SEND: bool>(
        &self,
        platform: &P,
        entries: &[[E; 4]],
        out: &mut [C],
        shadow: &S,
        index: u64,
    ) -> usize {
        let mask = (self.trackers.len() as u64).wrapping_sub(1);
        let unusual = if IS_SEND { UNUSUAL } else { UNUSUAL_RECEIVE };
        let mut tail = self.line.own_tail();
        let mut next = index;
        for (entry, wc) in entries.iter().zip(out) {
            let [q0, q1, _, header] = entry;
            let q3 = header.observe();
            if (q3 ^ self.alike) & (VALID | SEND | unusual) != 0 {
                break;
            }
            platform.from_device();
            if q1.get() != self.context {
                break;
            }
            let at = entry::wqe_index(q3);
            let Some(tracker) = self.trackers.get(at as usize) else {
                break;
            };
            let tracker = Tracker(tracker);
            let end = tracker.end();
            if end <= tail {
                break;
            }
            let what = if IS_SEND {
                let Some(what) = sent(&tracker, q3) else {
                    break;
                };
                what
            } else {
                // Receives are all expected; but others were passed over, if this
                // is not the oldest one.
                if at != tail & mask {
                    break;
                }
                received(q0.get())
            };
            *wc = completion(tracker.wr_id(), self.qp_id, WcStatus::Success, what).into();
            tail = end;
            next = next.wrapping_add(1);
            // Release: the entry was read before the device may reuse it.
            shadow.publish(next);
        }
        self.line.set_tail(tail);
        next.wrapping_sub(index) as usize
    }
}
