//! Arguments of `e810 monitor`.

use std::path::PathBuf;

use clap::Args;

use super::{Op, PairArgs};

/// Arguments of `e810 monitor`.
#[derive(Args, Debug, Clone)]
pub struct MonitorArgs {
    /// Look at the command that was started with `--monitor PATH`; without this, a stream of messages is begun, and
    /// looked at.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["op", "size", "qps", "depth", "device", "peer"])]
    pub at: Option<PathBuf>,
    /// Look once, and leave.
    #[arg(long, conflicts_with = "count")]
    pub once: bool,
    /// Look so many times, and leave.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Milliseconds between two looks, which rates are of: 10 to 60000.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub interval: u64,
    /// Print a JSON object for each look, one a line.
    #[arg(long)]
    pub json: bool,
    /// The operation of the messages.
    #[arg(long, value_enum, default_value_t = Op::Send)]
    pub op: Op,
    /// Bytes of a message, 1 to 8388608.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=8 << 20))]
    pub size: u32,
    /// Queue pairs, 1 to 256.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub qps: u32,
    /// Messages outstanding on each queue pair, 1 to 4096.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub depth: u32,
    /// The functions. Completions are waited for by events, with adaptive moderation unless `--moderation` says
    /// otherwise.
    #[command(flatten)]
    pub pair: PairArgs,
}
