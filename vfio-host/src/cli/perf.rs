//! Arguments of `e810 perf`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Op, PairArgs};
use crate::perf::MAX_POST_LIST;

/// Arguments of `e810 perf`.
#[derive(Args, Debug, Clone)]
pub struct PerfArgs {
    /// The operation.
    #[arg(long, value_enum, default_value_t = Op::Send)]
    pub op: Op,
    /// What is measured: latency of one message at a time, or bandwidth of as many as the queues take.
    #[arg(long, value_enum, default_value_t = TestArg::Lat)]
    pub test: TestArg,
    /// Bytes of a message, 1 to 8388608.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=8 << 20), conflicts_with = "all")]
    pub size: u32,
    /// All powers of two from 2 bytes to 8 MiB, one after the other.
    #[arg(long)]
    pub all: bool,
    /// Queue pairs, 1 to 256.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub qps: u32,
    /// Messages outstanding on each queue pair, 1 to 4096 [default: 128].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub depth: Option<u32>,
    /// Messages up to so many bytes go into the queue instead of being read from memory, 0 to 101.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=101))]
    pub inline: u32,
    /// Requests posted with one doorbell, 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_POST_LIST)))]
    pub post_list: u32,
    /// Messages of each size, on each queue pair.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub iters: u64,
    /// Give every message payload of its own, and look at each that arrives.
    ///
    /// Takes time that counts as the messages'. Without it, and for streams of WRITEs, of which the receiver is not
    /// told, what is in memory at the end of each size is looked at.
    #[arg(long)]
    pub check: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Draw the figures over the size into this file, as SVG.
    #[arg(long, value_name = "FILE.svg")]
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
