//! Arguments of `e810 perf`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use e810_hal::Ns;

use super::PairArgs;
use super::file::{checked, picture};
use super::number::{number, seconds, size};
use crate::measure::op::Op;
use crate::measure::perf::{MAX_DEPTH, MAX_POST_LIST, MAX_QPS};

/// Arguments of `e810 perf`.
#[derive(Args, Debug, Clone)]
pub struct PerfArgs {
    /// The operation that carries the messages.
    #[arg(long, value_enum, default_value_t = Op::Send)]
    pub op: Op,
    /// What to measure: latency, with one message at a time, or bandwidth, with as many messages as
    /// the queues hold.
    #[arg(long, value_enum, default_value_t = TestArg::Lat)]
    pub test: TestArg,
    /// Bytes of a message, 1 to 8M (K = 1024) [default: 64].
    #[arg(short, long, value_name = "BYTES", value_parser = size::<u32>(1, 8 << 20), conflicts_with = "all")]
    pub size: Option<u32>,
    /// Measure every power of two from 2 bytes to 8 MiB.
    #[arg(short, long)]
    pub all: bool,
    /// Queue pairs, 1 to 256.
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = number::<u32>(1, MAX_QPS.into()))]
    pub qps: u32,
    /// Messages outstanding on each queue pair with --test bw, 1 to 4096 [default: 128].
    #[arg(short = 't', long, value_name = "N", value_parser = number::<u32>(1, MAX_DEPTH.into()))]
    pub depth: Option<u32>,
    /// Send messages of up to this many bytes inline (in the queue, not read from memory), 0 to
    /// 101.
    #[arg(short = 'I', long, value_name = "BYTES", default_value = "0", value_parser = number::<u32>(0, 101))]
    pub inline: u32,
    /// Requests posted with one doorbell, 1 to 64.
    #[arg(short = 'l', long, value_name = "N", default_value = "1", value_parser = number::<u32>(1, MAX_POST_LIST.into()))]
    pub post_list: u32,
    /// Messages of each size, on each queue pair [default: 1000].
    #[arg(short = 'n', long, value_name = "N", value_parser = number::<u64>(1, 10_000_000))]
    pub iters: Option<u64>,
    /// Run for this many seconds instead of --iters messages.
    #[arg(short = 'D', long, value_name = "SECONDS", conflicts_with_all = ["iters", "all", "virtual_time"], value_parser = seconds)]
    pub duration: Option<Ns>,
    /// Give every message its own payload, and verify each message.
    ///
    /// The measured time includes this. Without --check, and for streams of WRITEs (which complete
    /// nothing at the receiver), only the memory at the end of each size is verified.
    #[arg(long)]
    pub check: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Print comma-separated values, with a header.
    #[arg(long, conflicts_with_all = ["json", "histogram"])]
    pub csv: bool,
    /// Print bandwidth in Gbit/s instead of MiB/s; JSON has both.
    #[arg(long)]
    pub report_gbits: bool,
    /// Also print a histogram of the latencies; with --json it is `histogram` of each row.
    #[arg(short = 'H', long)]
    pub histogram: bool,
    /// Plot the results over the message size into this SVG file.
    #[arg(long, value_name = "FILE.svg", value_parser = checked(picture))]
    pub plot: Option<PathBuf>,
    /// The functions.
    #[command(flatten)]
    pub pair: PairArgs,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TestArg {
    /// Latency.
    Lat,
    /// Bandwidth.
    Bw,
}
