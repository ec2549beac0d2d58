//! How long completions may wait for their interrupt.
//!
//! The card delays interrupts of a vector with a timer that runs from the last interrupt, so a
//! wait costs nothing where completions are rare. It counts no completions, and it knows only
//! vectors, not completion queues: a vector waits as long as the most impatient of its queues
//! allows.

mod pacer;
mod shared;

pub(crate) use pacer::Pacer;
pub(crate) use shared::Shared;

use e810_ceq::dim::{CARD, Counted, LOAD, LoadDim, RdmaDim};
use e810_ceq::{Error as CeqError, Itr};

use pacer::Machine;

/// What a completion queue allows: see
/// [`Control::modify_cq`](crate::Control::modify_cq).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CqModeration {
    /// Each event interrupts at once.
    #[default]
    Off,
    /// Moderation of a completion queue as verbs define it.
    Fixed {
        /// One interrupt for this many completions; 0: only the period counts.
        ///
        /// The card cannot count. So the wait is the time that `count` completions take at their
        /// current rate, measured over 64 requests for an event. 1 is an interrupt for each.
        count: u16,
        /// At least this many µs between two interrupts, rounded down to 2 µs: 0 to 8160.
        period_us: u16,
    },
    /// The wait follows the load, up to 50 µs; none at low rates.
    Adaptive(Adaptive),
}

/// What an adaptive wait follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Adaptive {
    /// The rate of completions ([`LoadDim`]).
    #[default]
    Load,
    /// Linux' rules for completion queues ([`RdmaDim`]), with waits of this card. A load that is
    /// even from the start is not moderated.
    #[doc(alias = "rdma_dim")]
    Dim,
}

/// How a completion queue is moderated at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Moderated {
    /// What [`Control::modify_cq`](crate::Control::modify_cq) was given.
    pub setting: CqModeration,
    /// How long it allows its events to wait, in µs.
    pub wait_us: u32,
    /// The profile that an adaptive setting has chosen, counted from 0, and how
    /// many there are; a higher one waits longer.
    pub profile: Option<(u8, u8)>,
}

impl CqModeration {
    /// Refuses what the card cannot do.
    pub(crate) fn check(self) -> Result<(), CeqError> {
        self.machine().map(|_| ())
    }

    /// The machine that follows the setting, and the initial wait.
    fn machine(self) -> Result<(Machine, Itr), CeqError> {
        Ok(match self {
            Self::Off => (Machine::Still, Itr::NONE),
            Self::Fixed { count, period_us } => {
                let period = Itr::from_us(period_us.into())?;
                match count {
                    0 => (Machine::Still, period),
                    1 => (Machine::Still, Itr::NONE),
                    _ => {
                        let counted = Counted::new(count.into(), period.us());
                        (Machine::Counted(counted), Itr::NONE)
                    }
                }
            }
            Self::Adaptive(Adaptive::Load) => (Machine::Load(LoadDim::new(&LOAD)), Itr::NONE),
            Self::Adaptive(Adaptive::Dim) => match RdmaDim::new(&CARD) {
                Ok(dim) => (Machine::Dim(dim), Itr::at_most(dim.profile().us)),
                // The set is not empty.
                Err(_) => (Machine::Still, Itr::NONE),
            },
        })
    }
}
