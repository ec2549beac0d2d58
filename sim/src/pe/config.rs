//! Configuration of an engine by a test or a user.

use std::sync::Arc;

use e810_hal::Ns;

use super::fpm::FpmProfile;
use crate::variation::Variation;

/// Injected CQP failures.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CqpErrors {
    /// No failure.
    #[default]
    None,
    /// Every command completes with an error.
    All,
    /// The n-th command after each CQP create (the first is 0) completes with an error.
    Nth(u32),
    /// Every command with this opcode completes with an error.
    Opcode(u8),
    /// Every command with this opcode completes with an error that has these codes.
    Answer {
        /// Opcode (control-path 4.6).
        opcode: u8,
        /// MAJERR.
        major: u16,
        /// MINERR.
        minor: u16,
    },
}

/// Overrides of wire parameters for every connection of an engine. They take effect at the next
/// state change of a QP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TransportLimits {
    /// Time without progress after which a requester retransmits; by default from RTOMIN.
    pub ack_timeout: Option<Ns>,
    /// Packets of sends and writes that may be unacknowledged, at least 1; by default from
    /// CWNDROCE.
    pub window: Option<u32>,
    /// RNR timer code that responders request, 0 to 31; by default 12, which is 0.64 ms.
    pub rnr_timer: Option<u8>,
    /// Credit code of acknowledges, 0 to 31, where 31 is "not limited"; by default from ACKCREDITS.
    pub ack_credits: Option<u8>,
}

/// Configuration of one engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// PF number 0..7: the HMC function id of its commands (control-path 0).
    pub pf: u8,
    /// The object limits that QUERY_FPM_VAL reports.
    pub profile: FpmProfile,
    /// Words of a card's reply to QUERY_FPM_VAL, used instead of the profile's own.
    pub(crate) fpm_reply: Option<Arc<[u64]>>,
    /// The same for QUERY_RDMA_FEATURES.
    pub(crate) feature_reply: Option<Arc<[u64]>>,
    /// Choices for unknown behaviour of the engine.
    pub variation: Variation,
    /// Injected command failures.
    pub cqp_errors: CqpErrors,
    /// The CQP accepts commands but never completes one.
    pub cqp_silent: bool,
    /// Shortest and longest time in nanoseconds that one CQP command takes.
    pub cqp_delay: (u64, u64),
    /// Overrides of the wire parameters of connections.
    pub transport: TransportLimits,
    /// Test mode: after each step contexts are written to their HMC backing, and read again.
    pub write_through: bool,
    /// Looked-up values are used again while nothing has changed them. Without this (test mode),
    /// everything is looked up and checked each time; the engine does the same, but slower.
    pub shortcuts: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            pf: 0,
            profile: FpmProfile::default(),
            fpm_reply: None,
            feature_reply: None,
            variation: Variation::default(),
            cqp_errors: CqpErrors::None,
            cqp_silent: false,
            // Not in the sources; far below the driver's 10 µs register poll and above zero.
            cqp_delay: (500, 5_000),
            transport: TransportLimits::default(),
            write_through: false,
            shortcuts: true,
        }
    }
}
