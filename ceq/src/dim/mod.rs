//! Dynamic interrupt moderation: how long a queue's interrupts may wait.
//!
//! [`RdmaDim`] chooses among a few [`Profile`]s by how the load reacts when they change
//! (data-path 9.1). [`LoadDim`] chooses a [`Wait`] by the rate itself, so that an even load is
//! moderated too. [`Counted`] follows the rate to gather a given number of completions and no
//! more. They only decide. The caller reads its counters and its clock, gives a sample now and
//! then, programs the profile that a machine asks for, and confirms it with `applied`.
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
//! The first sample begins a measurement. The first sample at least [`EVENTS`] events later ends
//! it, and begins the next one unless the profile is to change. After a change samples are
//! ignored until `applied`, and the next sample restarts: no measurement spans two profiles.
//!
//! All rates are per millisecond, rounded up. They are what Linux computes, which takes a
//! measurement to be exactly [`EVENTS`] events. With several events in a sample, rates of events
//! are therefore too low by the surplus of the last sample. If that matters, give one sample for
//! each event.
//!
//! # Bad samples
//!
//! * Counters wrap; of a wider counter the low 32 bits are enough. A measurement in which a counter
//!   moves by 2^32 or more is misread.
//! * If time or events are before the start of the measurement, it restarts with that sample.
//!   Events more than 2^31 ahead are taken for that too.
//! * Less than 1 µs since the start: rates would have no meaning, so the measurement continues with
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
