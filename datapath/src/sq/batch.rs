//! A list of requests with one doorbell, and requests to a QP in error.

use e810_hal::{Barrier, Bus, DmaWords};
use e810_types::{QpState, WorkQueue};

use super::{SendQueue, errors};
use crate::error::{PostError, Refused};
use crate::slot::SlotMemory;
use crate::wr::SendWr;

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> SendQueue<P, W, M> {
    /// Posts any list of requests.
    #[inline(never)]
    pub(super) fn post_batch(&mut self, list: &[SendWr<'_>]) -> Result<(), Refused> {
        if !self.producer.is_open(WorkQueue::Send) {
            return self.post_batch_in_error(list);
        }
        self.post_each(list)
    }

    /// Posts a list in a state in which the device does nothing with it: in ERR
    /// and SQE it is taken, and completed by software.
    #[cold]
    #[inline(never)]
    fn post_batch_in_error(&mut self, list: &[SendWr<'_>]) -> Result<(), Refused> {
        match self.producer.state() {
            QpState::Err | QpState::Sqe => {
                let before = self.producer.head();
                let result = self.post_each(list);
                self.producer.notify_posted_in_error(before);
                result
            }
            state => errors::state(list, state),
        }
    }

    /// Posts a list whatever the state.
    #[inline(never)]
    fn post_each(&mut self, list: &[SendWr<'_>]) -> Result<(), Refused> {
        let mut posted = 0usize;
        let mut result = Ok(());
        for wr in list {
            if self.post_fast(wr).is_none()
                && self.post_inline_fast(wr).is_none()
                && let Err(error) = self.post_slow(wr)
            {
                result = Err(Refused { posted, error });
                break;
            }
            posted = posted.wrapping_add(1);
        }
        if posted > 0 {
            self.ring();
        }
        result
    }

    /// As `post_batch_in_error`, for one.
    #[cold]
    #[inline(never)]
    pub(super) fn post_one_in_error(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
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

    /// Posts any request and rings the doorbell.
    #[inline(never)]
    pub(super) fn post_one_slow(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.post_inline_fast(wr).is_none() {
            self.post_slow(wr)?;
        }
        self.ring();
        Ok(())
    }
}
