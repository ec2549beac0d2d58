//! Dynamic interrupt moderation: how long a queue's interrupts may wait.
//!
//! [`RdmaDim`] chooses among a few [`Profile`]s by what the load does when they
//! change (data-path 9.1). [`LoadDim`] chooses a [`Wait`] by the rate itself, so
//! that an even load is moderated too; [`Counted`] follows the rate to gather so
//! many completions and no more. They decide only. The caller reads its counters and its clock,
//! gives a sample now and then, programs the profile that a machine asks for, and says so with
//! `applied`.
//!
//! ```
//! use e810_ceq::dim::{Profile, RdmaDim, RdmaSample};
//! use e810_ceq::Itr;
//! use e810_hal::Ns;
//!
//! // This card delays by time only, in units of 2 µs.
//! const CARD: [Profile; 5] = [
//!     Profile::by_time(0),
//!     Profile::by_time(2),
//!     Profile::by_time(8),
//!     Profile::by_time(24),
//!     Profile::by_time(50),
//! ];
//! let mut dim = RdmaDim::new(&CARD)?;
//! let mut itr = Itr::from_us(dim.profile().us)?;
//!
//! let (mut time, mut completions) = (Ns(0), 0);
//! for events in 0..=128 {
//!     // Called at each event, when the completion queue is empty again.
//!     if dim.sample(RdmaSample { time, events, completions }).is_some() {
//!         itr = Itr::from_us(dim.profile().us)?;
//!         dim.applied();
//!     }
//!     // The second 64 events bring twice the completions of the first.
//!     time = time + Ns::from_us(2);
//!     completions += if events < 64 { 1 } else { 2 };
//! }
//! assert_eq!((dim.index(), itr.us()), (1, 2));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Measurements
//!
//! The first sample begins a measurement; the first one at least [`EVENTS`]
//! events later ends it, and begins the next unless the profile is to change.
//! After a change samples are ignored until `applied`, and the sample after
//! that restarts: no measurement spans two profiles.
//!
//! All rates are a millisecond's, rounded up. They are what Linux computes, and
//! that takes a measurement for exactly [`EVENTS`] events: with several events
//! a sample, rates of events are too low by what the last sample brought too
//! much. Give a sample an event where that matters.
//!
//! # Bad samples
//!
//! * Counters wrap; of a wider one the low 32 bits will do. A measurement in which one moves by
//!   2^32 or more is misread.
//! * Time or events before the start of the measurement: it restarts with that sample. Events more
//!   than 2^31 ahead are taken for that too.
//! * Less than 1 µs since the start: rates would have no meaning, so the measurement goes on with
//!   the next sample.

mod counted;
mod ladder;
mod load;
mod profile;
mod rates;
mod rdma;
mod sampler;

#[cfg(test)]
mod model;
#[cfg(test)]
mod scenarios;

pub use counted::{Counted, interval_us};
pub use load::{LOAD, LoadDim, Wait};
pub use profile::{CARD, NoProfiles, Profile, RDMA};
pub use rdma::RdmaDim;
pub use sampler::{EVENTS, RdmaSample};
