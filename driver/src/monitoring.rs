//! Fill levels of queues and timers of vectors, for monitoring. Nothing here is on
//! the data path.

use e810_ceq::Timer;

/// How full a queue is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Depth {
    /// Capacity in entries.
    pub entries: u32,
    /// Entries that wait to be taken.
    pub waiting: u32,
}

/// What delays the interrupts of a completion vector at present, according to its registers.
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
