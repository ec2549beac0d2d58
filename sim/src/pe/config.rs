//! What a test or a user may choose about an engine.

use super::fpm::FpmProfile;

/// How FLUSH_WQES reports the flushed requests. Which one the card does is not in the sources (data-path 8.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlushStyle {
    /// One flush CQE for a queue that had outstanding requests.
    PerQueue,
    /// One flush CQE for each outstanding request.
    PerWqe,
}

/// A device whose CQP fails on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CqpErrors {
    /// A good device.
    #[default]
    None,
    /// Every command completes with an error.
    All,
    /// The n-th command after each CQP create (the first is 0) completes with an error.
    Nth(u32),
    /// Every command with this opcode completes with an error.
    Opcode(u8),
}

/// Choices of one engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// PF number 0..7: the HMC function id of its commands (control-path 0).
    /// PF number 0..7: the HMC function id of its commands (control-path 0).
    pub pf: u8,
    /// What QUERY_FPM_VAL reports.
    pub profile: FpmProfile,
    /// Flush style, or `None`: each FLUSH_WQES draws it from [`Env::random`](super::Env::random).
    pub flush: Option<FlushStyle>,
    /// Commands that fail on purpose.
    pub cqp_errors: CqpErrors,
    /// The CQP takes commands and never completes one.
    pub cqp_silent: bool,
    /// Shortest and longest time in nanoseconds that one CQP command takes.
    pub cqp_delay: (u64, u64),
    /// Test mode: contexts are written to their HMC backing and read again after each step.
    pub write_through: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            pf: 0,
            profile: FpmProfile::default(),
            flush: None,
            cqp_errors: CqpErrors::None,
            cqp_silent: false,
            // Not in the sources; far below the driver's 10 µs register poll and above zero.
            cqp_delay: (500, 5_000),
            write_through: false,
        }
    }
}
