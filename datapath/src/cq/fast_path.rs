//! One completion for each call: does what a run of entries does for several, with no more live
//! values than there are registers that need no saving.

use e810_hal::{Barrier, Bus, DmaWord, DmaWords};
use e810_types::WorkQueue;

use super::entry::{UNUSUAL, UNUSUAL_RECEIVE};
use super::request::Request;
use super::success::{completion, received, sent};
use super::{CompletionQueue, SHADOW_HEAD};
use crate::slot::{SlotMemory, id_in};
use crate::status::WcStatus;
use crate::wc::Wc;

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> CompletionQueue<P, W, M> {
    /// Takes the entry at the head, of a send queue, whose words these are.
    #[inline(never)]
    pub(super) fn poll_send<C: From<Wc>>(&mut self, wc: &mut C, q3: u64, q1: u64) -> usize {
        match self.complete_send(wc, q3, q1) {
            Some(next) => self.advance_to(next),
            None => self.poll_slow(core::slice::from_mut(wc), 0),
        }
    }

    /// The same of a receive queue.
    #[inline(never)]
    pub(super) fn poll_receive<C: From<Wc>>(
        &mut self,
        wc: &mut C,
        q3: u64,
        q1: u64,
        q0: u64,
    ) -> usize {
        match self.complete_receive(wc, q3, q1, q0) {
            Some(next) => self.advance_to(next),
            None => self.poll_slow(core::slice::from_mut(wc), 0),
        }
    }

    /// Completes the request that a common entry names, and gives the index of the
    /// entry after it. `None`, with nothing changed, when the entry takes the long
    /// way.
    #[inline(always)]
    fn complete_send<C: From<Wc>>(&self, wc: &mut C, q3: u64, q1: u64) -> Option<u64> {
        if q3 & UNUSUAL != 0 {
            return None;
        }
        let qp_id = id_in(q1);
        let line = self.view.qp(qp_id)?.queue(WorkQueue::Send);
        if !line.guard().admits(q1, qp_id, self.cq_id) {
            return None;
        }
        let request = Request::named(&self.view, line, q3)?;
        let what = sent(&request.tracker, q3)?;
        let next = self.next_in_lap()?;
        *wc = completion(request.retire(line), qp_id, WcStatus::Success, what).into();
        Some(next)
    }

    /// The same of a receive queue.
    #[inline(always)]
    fn complete_receive<C: From<Wc>>(&self, wc: &mut C, q3: u64, q1: u64, q0: u64) -> Option<u64> {
        if q3 & UNUSUAL_RECEIVE != 0 {
            return None;
        }
        let qp_id = id_in(q1);
        let line = self.view.qp(qp_id)?.queue(WorkQueue::Recv);
        if !line.guard().admits(q1, qp_id, self.cq_id) {
            return None;
        }
        let request = Request::oldest(&self.view, line, q3)?;
        let next = self.next_in_lap()?;
        let what = received(q0);
        *wc = completion(request.retire(line), qp_id, WcStatus::Success, what).into();
        Some(next)
    }

    /// Index of the entry after the head; `None` at the end of the ring.
    #[inline(always)]
    fn next_in_lap(&self) -> Option<u64> {
        let next = self.index.wrapping_add(1);
        (next < self.entries).then_some(next)
    }

    /// Moves past one entry, which was read before.
    #[inline(always)]
    fn advance_to(&mut self, next: u64) -> usize {
        self.index = next;
        // It is there: see `new`.
        if let Some(shadow) = self.shadow.words().get(SHADOW_HEAD) {
            // Release: the entry was read before the device may reuse it.
            shadow.publish(next);
        }
        1
    }
}
