//! Which card is simulated.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::number::number;

/// The simulated card.
#[derive(Args, Debug, Clone)]
pub struct CardArgs {
    /// Simulate the card of this report (from `e810 report`).
    ///
    /// The report gives the registers after each reset, the firmware's answers, the limits and
    /// features of the engine, and the configuration space. The simulator supplies what the report
    /// does not have. PF 0 answers as PF 0 of that card did; the others answer with their own
    /// numbers instead.
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    pub card: Option<PathBuf>,
    /// The simulated card does what `e810 selftest` has found of a card.
    #[arg(long, value_name = "FILE")]
    pub quirks: Option<PathBuf>,
    /// Limits of the simulated engines.
    #[arg(long, value_enum, default_value_t = ProfileArg::Card)]
    pub profile: ProfileArg,
    /// MSI-X vectors of each function: up to 1024 with two functions, 512 with four, 256 with eight
    /// [default: 64; with --card, as that card].
    #[arg(long, value_name = "N", value_parser = number::<u16>(1, 1024))]
    pub vectors: Option<u16>,
}

/// Limits of a simulated engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ProfileArg {
    /// The most that a card may have.
    Card,
    /// Fits a machine with 1 GiB.
    Small,
    /// An E810-C, from published numbers.
    E810c,
}
