//! Arguments of `e810 monitor`.

use std::path::PathBuf;

use clap::{Arg, Args};
use e810_hal::Ns;

use super::PairArgs;
use super::device::socket_path;
use super::file::checked;
use super::number::{number, seconds, size};
use crate::measure::op::Op;
use crate::measure::perf::{DEPTH, MAX_DEPTH, MAX_QPS};

/// Options of a pair that this command refuses (with a message) and hides from its help.
const REFUSED: [&str; 7] = [
    "virtual_time",
    "listen",
    "connect",
    "cm",
    "port",
    "with",
    "wait",
];

fn without_refused(arg: Arg) -> Arg {
    let is_refused = REFUSED.contains(&arg.get_id().as_str());
    arg.hide(is_refused)
}

/// Arguments of `e810 monitor`.
#[derive(Args, Debug, Clone)]
#[command(mut_args(without_refused))]
pub struct MonitorArgs {
    /// Monitor the command that was started with `--monitor PATH`; without --at, send a stream of
    /// messages and monitor that.
    #[arg(long, value_name = "PATH", value_parser = checked(socket_path), conflicts_with_all = ["op", "size", "qps", "depth", "device", "peer"])]
    pub at: Option<PathBuf>,
    /// Print one view and exit.
    #[arg(long, conflicts_with_all = ["count", "duration"])]
    pub once: bool,
    /// Print this many views and exit.
    #[arg(long, value_name = "N", value_parser = number::<u64>(1, u64::MAX), conflicts_with = "duration")]
    pub count: Option<u64>,
    /// Monitor for this many seconds and exit.
    #[arg(short = 'D', long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Ns>,
    /// Milliseconds from one view to the next, over which rates are measured: 10 to 60000.
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = number::<u64>(10, 60_000))]
    pub interval: u64,
    /// Print one JSON object per view, one per line.
    #[arg(long)]
    pub json: bool,
    /// The operation that carries the messages.
    #[arg(long, value_enum, default_value_t = Op::Send)]
    pub op: Op,
    /// Bytes of a message, 1 to 8M (K = 1024).
    #[arg(short, long, value_name = "BYTES", default_value = "64", value_parser = size::<u32>(1, 8 << 20))]
    pub size: u32,
    /// Queue pairs, 1 to 256.
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = number::<u32>(1, MAX_QPS.into()))]
    pub qps: u32,
    /// Messages outstanding on each queue pair, 1 to 4096.
    #[arg(short = 't', long, value_name = "N", default_value_t = DEPTH, value_parser = number::<u32>(1, MAX_DEPTH.into()))]
    pub depth: u32,
    /// The functions. They wait for events, with adaptive moderation unless `--moderation` says
    /// otherwise.
    #[command(flatten)]
    pub pair: PairArgs,
}
