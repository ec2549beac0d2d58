//! Interrupt moderation, as the control path sets it.

use e810_ceq::irq::{self, Intrl};
use e810_hal::Platform;

use super::Control;
use crate::completion::Cq;
use crate::error::{Error, Object, Result};
use crate::moderation::CqModeration;

impl<P: Platform> Control<P> {
    /// Says how long a completion queue's events may wait. No command.
    ///
    /// The card has timers for vectors, not for queues: the vector waits as long
    /// as the most impatient of its queues allows, and a queue that nothing was
    /// said of allows no wait. Give queues that are to be moderated a vector of
    /// their own.
    ///
    /// A wait counts from the interrupt before. An event that comes later than
    /// that is not delayed at all.
    ///
    /// # Errors
    /// A period above 8160 µs, [`Error::Foreign`].
    pub fn modify_cq(&mut self, cq: &mut Cq<P>, moderation: CqModeration) -> Result<()> {
        self.own(cq.owner, Object::Cq, cq.key.id())?;
        cq.pacer.set(moderation)?;
        // The handler gives the vector its interval when it enables it next.
        // Here at once: a long one may be running.
        let ceq = cq.pacer.ceq();
        if let Some(vector) = self.vectors.vector(ceq)
            && let Some(timer) = self.below.as_ref().map(|below| below.timer(ceq))
        {
            irq::set_interval(&self.platform, vector, timer, self.moderation.itr(ceq));
        }
        Ok(())
    }

    /// Limits the rate of a completion vector's interrupts to one in `us` µs,
    /// whatever their cause; rounded down to the card's unit of 4 or 8 µs, below
    /// which there is no limit. One register write.
    ///
    /// On a vector that the asynchronous events share, those wait too.
    ///
    /// # Errors
    /// [`Error::NoSuch`] for a vector that is not there; more than 63 units.
    pub fn limit_interrupts(&mut self, vector: u16, us: u32) -> Result<()> {
        let no_such = Error::NoSuch {
            object: Object::CompletionVector,
            id: vector.into(),
        };
        let below = self.below.as_ref().ok_or(no_such)?;
        let vector = self.interrupt_vector(vector).ok_or(no_such)?;
        let limit = Intrl::from_us(us, below.units())?;
        irq::limit_rate(&self.platform, vector, limit);
        Ok(())
    }
}
