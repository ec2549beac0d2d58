//! Arguments of `e810 trace`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use e810_trace::Kinds;

use super::CardArgs;

/// Arguments of `e810 trace`.
#[derive(Args, Debug, Clone)]
pub struct TraceArgs {
    /// What to do with the trace.
    #[command(subcommand)]
    pub action: TraceAction,
}

/// What can be done with a trace.
#[derive(Subcommand, Debug, Clone)]
pub enum TraceAction {
    /// Print a trace; commands and buffers look as Linux' ice and irdma print theirs with dynamic
    /// debug.
    Show {
        /// The trace.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Only lines of these kinds.
        #[command(flatten)]
        only: OnlyArgs,
        /// Print a trace instead, to send to others: without Ethernet and IP addresses, serial numbers and
        /// contents of flash.
        #[arg(long, conflicts_with = "only")]
        anonymise: bool,
    },
    /// Replay recordings of `e810 proxy` on the simulator, and name what it does otherwise.
    ///
    /// Exit code 1 if anything differs.
    Check {
        /// The recordings, in the order of the functions that they are of; functions that send each
        /// other messages belong together.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// Another recording of the same steps, for each FILE: what differs between the two is not
        /// compared.
        #[arg(long, value_name = "FILE")]
        again: Vec<PathBuf>,
        /// The simulated card.
        #[command(flatten)]
        card: CardArgs,
        /// How many differences to print.
        #[arg(long, value_name = "N", default_value_t = 10)]
        most: usize,
    },
    /// Print how two traces differ, without times, repeated reads and addresses.
    ///
    /// Exit code 1 if they differ.
    Diff {
        /// The first trace.
        #[arg(value_name = "FILE")]
        one: PathBuf,
        /// The second trace.
        #[arg(value_name = "FILE")]
        other: PathBuf,
        /// Only lines of these kinds.
        #[command(flatten)]
        only: OnlyArgs,
    },
}

/// Which lines of a trace.
#[derive(Args, Debug, Clone)]
pub struct OnlyArgs {
    /// Print only lines of these kinds: register accesses, firmware commands, Control QP commands,
    /// work requests with completions and events, memory for the device.
    #[arg(long, value_name = "KINDS", value_enum, value_delimiter = ',')]
    pub only: Vec<KindArg>,
}

impl OnlyArgs {
    /// The kinds to show; all if none was named.
    #[must_use]
    pub fn kinds(&self) -> Kinds {
        let has = |kind| self.only.is_empty() || self.only.contains(&kind);
        Kinds {
            registers: has(KindArg::Registers),
            adminq: has(KindArg::Adminq),
            cqp: has(KindArg::Cqp),
            queues: has(KindArg::Queues),
            memory: has(KindArg::Memory),
        }
    }
}

/// A kind of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum KindArg {
    /// Register accesses.
    Registers,
    /// Firmware commands, answers and events.
    Adminq,
    /// Control QP commands.
    Cqp,
    /// Work requests, completions and events.
    Queues,
    /// Memory for the device.
    Memory,
}
