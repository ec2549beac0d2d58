//! One request a call.

use e810_hal::{Barrier, Bus, Words};

use super::{SendQueue, errors};
use crate::error::{PostError, Queue};
use crate::slot::SlotMemory;
use crate::state::QpState;
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
        if !self.producer.is_open(Queue::Send) {
            return self.post_one_in_error(wr);
        }
        if self.post_fast(wr).is_some() {
            self.ring();
            return Ok(());
        }
        self.post_one_not_fast(wr)
    }

    /// As `post_batch_in_error`, for one.
    #[cold]
    #[inline(never)]
    fn post_one_in_error(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        match self.producer.state() {
            QpState::Err | QpState::Sqe => {
                let before = self.producer.head();
                let result = self.post_one_slow(wr);
                self.producer.notify_posted_in_error(before);
                result
            }
            state => Err(errors::one(state)),
        }
    }

    /// Posts a request that is not plain and rings the doorbell. A function of its
    /// own, so that a plain one does without its registers.
    #[inline(never)]
    fn post_one_not_fast(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.post_two_quanta(wr).is_some() {
            self.ring();
            return Ok(());
        }
        self.post_one_slow(wr)
    }

    /// Posts any request and rings the doorbell.
    #[inline(never)]
    fn post_one_slow(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.post_inline_fast(wr).is_none() {
            self.post(wr)?;
        }
        self.ring();
        Ok(())
    }
}
