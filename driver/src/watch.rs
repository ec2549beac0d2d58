//! Queues and vectors at work, for who watches them. Nobody needs this to use
//! them, and nothing of it is on the data path.

use e810_ceq::Timer;
use e810_hal::Platform;

use crate::completion::Cq;
use crate::events::Events;
use crate::moderation::CqModeration;

/// How full a queue is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Depth {
    /// Entries it has room for.
    pub entries: u32,
    /// Entries that wait to be taken.
    pub waiting: u32,
}

/// What delays the interrupts of a completion vector at present, as its
/// registers say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Timing {
    /// The timer of its completions.
    pub timer: Timer,
    /// Interval of that timer in µs (GLINT_ITR); 0: none.
    pub interval_us: u32,
    /// Least time between two interrupts in µs (GLINT_RATE); 0: no limit.
    pub limit_us: u32,
}

/// How a completion queue is moderated at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Moderated {
    /// What [`Control::modify_cq`](crate::Control::modify_cq) was told.
    pub setting: CqModeration,
    /// How long it allows its events to wait, in µs.
    pub wait_us: u32,
    /// The profile that an adaptive setting has chosen, counted from 0, and how
    /// many there are; a higher one waits longer.
    pub profile: Option<(u8, u8)>,
}

impl<P: Platform> Cq<P> {
    /// How full it is; looks at each entry that waits. Those without a completion
    /// are among them, and one with immediate data counts twice.
    #[must_use]
    pub fn depth(&self) -> Depth {
        Depth {
            entries: self.entries(),
            waiting: self.queue.waiting(),
        }
    }

    /// How it is moderated.
    #[must_use]
    pub fn moderation(&self) -> Moderated {
        self.pacer.moderated()
    }
}

impl<P: Platform> Events<P> {
    /// Whether the asynchronous events come here.
    #[must_use]
    pub const fn has_async(&self) -> bool {
        self.aeq.is_some()
    }

    /// How full its completion event queue is; `None` where only asynchronous
    /// events come.
    #[must_use]
    pub fn depth(&self) -> Option<Depth> {
        self.ceq.as_ref().map(|(_, queue)| Depth {
            entries: queue.position().size(),
            waiting: queue.waiting(),
        })
    }
}
