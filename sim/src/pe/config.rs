//! What a test or a user may choose about an engine.

use super::fpm::FpmProfile;
use crate::variation::Variation;

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
    pub pf: u8,
    /// What QUERY_FPM_VAL reports.
    pub profile: FpmProfile,
    /// What no source says of the engine.
    pub variation: Variation,
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
            variation: Variation::default(),
            cqp_errors: CqpErrors::None,
            cqp_silent: false,
            // Not in the sources; far below the driver's 10 µs register poll and above zero.
            cqp_delay: (500, 5_000),
            write_through: false,
        }
    }
}
