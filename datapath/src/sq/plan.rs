//! Counts the space of requests before one of them is in the ring: for lists that are posted as a
//! whole or not at all. The device carries out a request as soon as its header is valid, with or
//! without a doorbell, so nothing that was written can be taken back.

use e810_hal::{Barrier, Bus, DmaWords};
use e810_types::WorkQueue;

use super::ring_space::CHUNK;
use super::slow_path::Content;
use super::{SendList, SendQueue};
use crate::error::PostError;
use crate::sizing::inline_quanta;
use crate::slot::SlotMemory;
use crate::wr::SendWr;

/// Requests that are to be posted together, counted one by one: [`SendList::plan`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SendPlan {
    /// Quanta that they take, with padding.
    quanta: u64,
}

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> SendList<'_, P, W, M> {
    /// Counts a request after those that are counted already, and posts nothing. If all requests
    /// of a list are counted without an error, and are the next to be posted, none is refused.
    ///
    /// # Errors
    /// Why the request cannot be posted.
    pub fn plan(&mut self, plan: &mut SendPlan, wr: &SendWr<'_>) -> Result<(), PostError> {
        let quanta = self.queue.quanta_of(wr)?;
        let producer = &mut self.queue.producer;
        let at = producer.head().wrapping_add(plan.quanta);
        let room = CHUNK - at % CHUNK;
        let pads = if quanta > room { room } else { 0 };
        let needed = plan.quanta.saturating_add(pads).saturating_add(quanta);
        if needed > producer.free() && needed > producer.refresh() {
            return Err(PostError::Full {
                queue: WorkQueue::Send,
                needed: u32::try_from(needed).unwrap_or(u32::MAX),
                free: producer.free() as u32,
            });
        }
        plan.quanta = needed;
        Ok(())
    }
}

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> SendQueue<P, W, M> {
    /// Quanta of a request that can be posted, apart from the room.
    fn quanta_of(&self, wr: &SendWr<'_>) -> Result<u64, PostError> {
        Ok(match self.content(&wr.op, wr.flags)? {
            Content::Sges(sges, body) | Content::Read(sges, body) => {
                let (fragments, _) = self.sges_fit(sges, body.imm)?;
                fragments as u64 / 2 + 1
            }
            Content::Inline(pieces, _) => inline_quanta(self.inline_fits(pieces)?).into(),
            Content::Words(_) => 1,
        })
    }
}
