//! One request a call.

use e810_hal::{Barrier, Bus, Words};
use e810_types::{QpState, WorkQueue};

use super::{SendQueue, refuse};
use crate::error::PostError;
use crate::slot::SlotMemory;
use crate::wr::SendWr;

impl<P: Bus + Barrier, W: Words, M: SlotMemory> SendQueue<P, W, M> {
    /// Posts one request and rings the doorbell: what
    /// [`post_send`](Self::post_send) does for a list of one, with a little less
    /// work.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn post_one(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if !self.poster.is_open(WorkQueue::Send) {
            return self.post_one_late(wr);
        }
        if self.post_plain(wr).is_some() {
            self.ring();
            return Ok(());
        }
        self.post_not_plain(wr)
    }

    /// As `post_late`, for one.
    #[cold]
    #[inline(never)]
    fn post_one_late(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        match self.poster.state() {
            QpState::Err | QpState::Sqe => {
                let before = self.poster.head();
                let result = self.post_rare(wr);
                self.poster.tell_since(before);
                result
            }
            state => Err(refuse::one(state)),
        }
    }

    /// Posts a request that is not plain and rings the doorbell. A function of its
    /// own, so that a plain one does without its registers.
    #[inline(never)]
    fn post_not_plain(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.post_two_quanta(wr).is_some() {
            self.ring();
            return Ok(());
        }
        self.post_rare(wr)
    }

    /// Posts any request and rings the doorbell.
    #[inline(never)]
    fn post_rare(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.post_short(wr).is_none() {
            self.post(wr)?;
        }
        self.ring();
        Ok(())
    }
}
