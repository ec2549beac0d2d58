//! Interrupt moderation, as the control path sets it.

use e810_ceq::Timer;
use e810_ceq::irq::{self, Intrl, Units};
use e810_hal::{CeqId, Platform, Vector};

use super::Control;
use crate::cq::Cq;
use crate::error::{Error, Object, Result};
use crate::moderation::{CqModeration, Shared};
use crate::monitoring::Timing;

impl<P: Platform> Control<P> {
    /// Sets how long a completion queue's events may wait. No command.
    ///
    /// The card has timers for vectors, not for queues: the vector waits as long as the most
    /// impatient of its queues allows, and a queue without a setting allows no wait. Give
    /// moderated queues a vector of their own.
    ///
    /// The wait counts from the previous interrupt. An event that comes after it has passed is
    /// not delayed at all.
    ///
    /// # Errors
    /// A period above 8160 µs, [`Error::Foreign`].
    #[doc(alias = "ibv_modify_cq")]
    pub fn modify_cq(&mut self, cq: &mut Cq<P>, moderation: CqModeration) -> Result<()> {
        self.own(cq.owner, Object::Cq, cq.key.id())?;
        cq.ring.pacer.set(moderation)?;
        self.tell_interval(cq.ring.pacer.ceq());
        Ok(())
    }

    /// A queue has joined a vector or left it (`change`): the wait of the vector may have
    /// changed.
    pub(super) fn with_interval(&self, ceq: CeqId, change: impl FnOnce(&Shared<P>)) {
        let before = self.moderation.itr(ceq);
        change(&self.moderation);
        if self.moderation.itr(ceq) != before {
            self.tell_interval(ceq);
        }
    }

    /// Tells the card how long a vector waits. The handler sets the interval when it enables the
    /// vector next; here it is set at once, because a long one may be running.
    fn tell_interval(&self, ceq: CeqId) {
        if let Some((vector, timer, _)) = self.completion_timer(ceq) {
            irq::set_interval(&self.platform, vector, timer, self.moderation.itr(ceq));
        }
    }

    /// Limits the rate of a completion vector's interrupts, whatever their cause, to one in `us`
    /// µs. `us` is rounded down to the card's unit of 4 or 8 µs; below one unit there is no
    /// limit. One register write.
    ///
    /// If the asynchronous events share the vector, they wait too.
    ///
    /// # Errors
    /// [`Error::NoSuch`] for a vector that is not there; more than 63 units.
    pub fn limit_interrupts(&mut self, vector: u16, us: u32) -> Result<()> {
        let (vector, _, units) = self.timer_of(vector)?;
        let limit = Intrl::from_us(us, units)?;
        irq::limit_rate(&self.platform, vector, limit);
        Ok(())
    }

    /// What delays the interrupts of a completion vector, for monitoring. Two
    /// register reads, one without a timer.
    ///
    /// # Errors
    /// [`Error::NoSuch`] for a vector that is not there.
    pub fn interrupt_timing(&self, vector: u16) -> Result<Timing> {
        let (vector, timer, units) = self.timer_of(vector)?;
        Ok(Timing {
            timer,
            interval_us: irq::interval(&self.platform, vector, timer).us(),
            limit_us: irq::rate_limit(&self.platform, vector).us(units),
        })
    }

    fn timer_of(&self, vector: u16) -> Result<(Vector, Timer, Units)> {
        let found = CeqId::new(vector).and_then(|ceq| self.completion_timer(ceq));
        found.ok_or(Error::NoSuch {
            object: Object::CompletionVector,
            id: vector.into(),
        })
    }

    /// The interrupt vector of a completion vector, the timer of its completions, and the card's
    /// units of intervals.
    fn completion_timer(&self, ceq: CeqId) -> Option<(Vector, Timer, Units)> {
        let vector = self.vectors.vector(ceq)?;
        Some((vector, self.wiring.timer(ceq), self.wiring.units))
    }
}
