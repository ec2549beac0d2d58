//! A completion queue that is polled as its mode says.

use e810_datapath::{Notify, Wc};
use e810_hal::{Ns, Platform};

use crate::cq::Cq;

/// Completions taken from the ring in one go, as kernel users do.
#[doc(alias = "IB_POLL_BATCH")]
pub const BATCH: usize = 16;
/// Completions of one turn after an event, where other queues wait for their turn (the kernel's
/// soft interrupts).
#[doc(alias = "IB_POLL_BUDGET_IRQ")]
pub const BUDGET: u32 = 256;
/// Completions of one turn where nobody else waits (the kernel's work queues).
pub const WORK_BUDGET: u32 = 65_536;

/// How a completion queue is taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[doc(alias = "ib_poll_context")]
pub enum PollMode {
    /// Its user polls; events are never asked for.
    Direct,
    /// After an event, until it is empty, at most `budget` completions a turn.
    Event {
        /// Completions of one turn; 0 counts as 1.
        budget: u32,
    },
    /// As `Event`, but it asks for an event only after the queue was empty for `spin`: the
    /// latency of polling while there is work, and no work while there is none.
    Hybrid {
        /// Completions of one turn; 0 counts as 1.
        budget: u32,
        /// How long the queue is polled after its last completion.
        spin: Ns,
    },
}

impl PollMode {
    /// After events, with the usual budget.
    #[must_use]
    pub const fn event() -> Self {
        Self::Event { budget: BUDGET }
    }

    /// After events, in a thread that does nothing else, with its budget.
    #[must_use]
    pub const fn worker() -> Self {
        Self::Event {
            budget: WORK_BUDGET,
        }
    }

    /// Spinning for `spin`, with the usual budget.
    #[must_use]
    pub const fn hybrid(spin: Ns) -> Self {
        Self::Hybrid {
            budget: BUDGET,
            spin,
        }
    }

    const fn budget(self) -> u32 {
        match self {
            Self::Direct => BUDGET,
            // A turn that takes nothing would be followed by another for ever.
            Self::Event { budget: 0 } | Self::Hybrid { budget: 0, .. } => 1,
            Self::Event { budget } | Self::Hybrid { budget, .. } => budget,
        }
    }
}

/// What to do after a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use = "a queue that is to be processed again raises no event"]
pub enum Processed {
    /// Process it again, without waiting for an event: the budget is used up, something came
    /// while the event was asked for, or it still spins. A queue that is polled directly always
    /// gives this.
    Again,
    /// It is empty, and an event was asked for: process it after that event.
    Sleep,
}

/// A completion queue and its mode. `Send`, as the queue is.
#[derive(Debug)]
pub struct CqPoller<P: Platform> {
    cq: Cq<P>,
    mode: PollMode,
    /// When a completion was last there.
    busy: Option<Ns>,
}

impl<P: Platform> CqPoller<P> {
    /// From now on, takes `cq` as `mode` says.
    pub const fn new(cq: Cq<P>, mode: PollMode) -> Self {
        Self {
            cq,
            mode,
            busy: None,
        }
    }

    /// Runs one turn at time `now` of the platform's clock: takes completions in batches, passes
    /// each to `done`, and asks for an event when there are no more.
    ///
    /// For adaptive moderation ([`CqModeration`](crate::CqModeration)) a turn counts as one event
    /// if it asks for an event or uses its budget up, as in the kernel's soft interrupts. The
    /// kernel's work queues do not count the latter: there, a queue that is never empty is not
    /// measured. A turn that only spins does not count, and neither does one in
    /// [`PollMode::Direct`].
    ///
    /// No completion is missed: after [`Processed::Sleep`] an event comes for every completion
    /// that was not passed to `done`.
    pub fn process(&mut self, now: Ns, done: &mut impl FnMut(&Wc)) -> Processed {
        // With or without an event: it is polled.
        let _ = self.cq.take_event();
        let budget = self.mode.budget();
        let taken = self.process_direct(budget, done);
        if taken > 0 || self.busy.is_none() {
            self.busy = Some(now);
        }
        if taken >= budget {
            if self.mode != PollMode::Direct {
                self.cq.polled_on();
            }
            return Processed::Again;
        }
        match self.mode {
            PollMode::Direct => Processed::Again,
            PollMode::Hybrid { spin, .. }
                if self
                    .busy
                    .is_some_and(|busy| now.0.wrapping_sub(busy.0) < spin.0) =>
            {
                Processed::Again
            }
            PollMode::Event { .. } | PollMode::Hybrid { .. } => {
                if self.cq.arm(Notify::Any) {
                    return Processed::Again;
                }
                // After an event it spins anew.
                self.busy = None;
                Processed::Sleep
            }
        }
    }

    /// Takes at most `budget` completions and passes each to `done`; never asks for an event.
    /// Returns their number: fewer than `budget` means that the queue was empty.
    pub fn process_direct(&mut self, budget: u32, done: &mut impl FnMut(&Wc)) -> u32 {
        let mut wcs = [Wc::default(); BATCH];
        let mut taken = 0u32;
        while taken < budget {
            let room = (budget.wrapping_sub(taken) as usize).min(BATCH);
            let batch = self.cq.poll(wcs.get_mut(..room).unwrap_or_default());
            wcs.iter().take(batch).for_each(&mut *done);
            taken = taken.wrapping_add(batch as u32);
            if batch < room {
                break;
            }
        }
        taken
    }

    /// The queue.
    pub const fn cq(&self) -> &Cq<P> {
        &self.cq
    }

    /// The queue, to make queue pairs on and to resize it.
    pub const fn cq_mut(&mut self) -> &mut Cq<P> {
        &mut self.cq
    }

    /// Its mode.
    #[must_use]
    pub const fn mode(&self) -> PollMode {
        self.mode
    }

    /// Gives the queue back.
    pub fn into_cq(self) -> Cq<P> {
        self.cq
    }
}
