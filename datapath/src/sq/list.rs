//! A list of requests with one doorbell, and requests to a QP in error.

use core::fmt;

use e810_hal::{Barrier, Bus, DmaWords};
use e810_types::{QpState, WorkQueue};

use super::{OneSge, SendQueue, errors};
use crate::error::{PostError, Refused};
use crate::slot::SlotMemory;
use crate::wr::{SendFlags, SendWr, Sge};

/// A list that is being posted, request by request: [`SendQueue::list`]. When it is
/// dropped, the doorbell is rung for what was posted.
#[must_use = "requests are posted with SendList::post"]
pub struct SendList<'q, P: Bus + Barrier, W: DmaWords, M: SlotMemory> {
    pub(super) queue: &'q mut SendQueue<P, W, M>,
    /// Where the first request goes.
    before: u64,
    /// The device ignores requests in this state, ERR or SQE.
    in_error: bool,
}

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> SendList<'_, P, W, M> {
    /// Posts the next request. After an error the list can continue, or end: what was posted
    /// before stays posted.
    ///
    /// # Errors
    /// Why it cannot be posted; nothing of it is in the ring.
    #[inline]
    pub fn post(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.queue.post_fast(wr).is_some() {
            return Ok(());
        }
        self.queue.post_not_fast(wr)
    }

    /// Posts the next request, of one SGE, if only its WQE has to be written. `None`, with
    /// nothing changed, for any other request, and for an invalid one: post it with
    /// [`post`](Self::post). For callers that have a request in another form: they make a
    /// [`SendWr`] of it only where it is needed.
    #[inline(always)]
    pub fn post_one_sge(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        sge: &Sge,
        what: OneSge,
    ) -> Option<()> {
        self.queue.post_sge(wr_id, flags, sge, what)
    }

    /// The same, of a request of one piece of inline data.
    #[inline(always)]
    pub fn post_one_piece(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        bytes: &[u8],
        what: OneSge,
    ) -> Option<()> {
        self.queue.post_piece(wr_id, flags, bytes, what)
    }
}

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> Drop for SendList<'_, P, W, M> {
    #[inline]
    fn drop(&mut self) {
        if self.queue.producer.head() == self.before {
            return;
        }
        self.queue.ring();
        if self.in_error {
            self.queue.producer.notify_posted_in_error(self.before);
        }
    }
}

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> fmt::Debug for SendList<'_, P, W, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendList")
            .field("before", &self.before)
            .finish_non_exhaustive()
    }
}

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> SendQueue<P, W, M> {
    /// Begins a list of requests, which are posted one by one with one doorbell, rung when the
    /// list is dropped: for requests that are not in a slice.
    ///
    /// # Errors
    /// [`PostError::WrongState`]. In ERR and SQE requests are taken, and completed by
    /// software.
    #[inline]
    pub fn list(&mut self) -> Result<SendList<'_, P, W, M>, PostError> {
        let in_error = !self.producer.is_open(WorkQueue::Send);
        if in_error {
            self.takes_in_error()?;
        }
        Ok(SendList {
            before: self.producer.head(),
            in_error,
            queue: self,
        })
    }

    #[cold]
    #[inline(never)]
    fn takes_in_error(&self) -> Result<(), PostError> {
        match self.producer.state() {
            QpState::Err | QpState::Sqe => Ok(()),
            state => Err(errors::state(state)),
        }
    }

    /// Posts any list of requests.
    #[inline(never)]
    pub(super) fn post_batch(&mut self, requests: &[SendWr<'_>]) -> Result<(), Refused> {
        if requests.is_empty() {
            return Ok(());
        }
        let refused = |posted| move |error| Refused { posted, error };
        let mut list = self.list().map_err(refused(0))?;
        for (posted, wr) in requests.iter().enumerate() {
            list.post(wr).map_err(refused(posted))?;
        }
        Ok(())
    }

    /// As [`post_one`](Self::post_one), in a state in which the device ignores the request.
    #[cold]
    #[inline(never)]
    pub(super) fn post_one_in_error(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        self.list()?.post(wr)
    }

    /// Posts a request that the fast path leaves.
    #[inline(never)]
    fn post_not_fast(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.post_inline_fast(wr).is_some() {
            return Ok(());
        }
        self.post_slow(wr)
    }

    /// Posts any request and rings the doorbell.
    #[inline(never)]
    pub(super) fn post_one_slow(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        self.post_not_fast(wr)?;
        self.ring();
        Ok(())
    }
}
