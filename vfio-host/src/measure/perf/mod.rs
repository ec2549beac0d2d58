//! Latency and bandwidth of one operation over message sizes.
//!
//! Each side is a state machine that runs one turn at a time ([`Client`] measures, [`Server`]
//! answers), so one thread can drive both, or each has a process.

mod client;
mod core_to_core;
mod endpoint;
mod pace;
mod plot;
mod server;
mod spread;
mod table;

use anyhow::Result;
use e810::{QpCaps, Tuning, cq_dma_bytes};
use e810_hal::Ns;
use serde::Serialize;

use crate::measure::latency::Bucket;
use crate::measure::op::Op;
use crate::measure::wait_mode::WaitMode;
use crate::usage::refuse;
use e810_node::start::Sizes;

pub use client::Client;
pub use core_to_core::{CoreToCore, core_to_core};
pub(crate) use endpoint::ACCESS;
pub use endpoint::{MAX_POST_LIST, PerfEndpoint};
pub use plot::svg;
pub use server::Server;
pub use spread::Spread;
pub use table::{Layout, PerfReport, Row, Table, histogram};

/// Maximum queue pairs of a run.
pub const MAX_QPS: u32 = 256;
/// Maximum messages outstanding on a queue pair.
pub const MAX_DEPTH: u32 = 4096;
/// Default messages outstanding on a queue pair.
pub const DEPTH: u32 = 128;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Test {
    /// One message at a time.
    Latency,
    /// As many messages as the queues hold.
    Bandwidth,
}

impl Test {
    /// The name used on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "lat",
            Self::Bandwidth => "bw",
        }
    }
}

/// What to measure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The operation.
    pub op: Op,
    /// What is measured.
    pub test: Test,
    /// Bytes of messages, one run each.
    pub sizes: Vec<u32>,
    /// Queue pairs; one for latency.
    pub qps: usize,
    /// Messages outstanding on a queue pair.
    pub depth: u32,
    /// Messages of up to this many bytes go inline.
    pub inline: u32,
    /// Requests posted with one doorbell.
    pub post_list: u32,
    /// Messages of a run, on each queue pair; the maximum if there is a duration.
    pub iterations: u64,
    /// Duration of a run: a message that would be posted later than this after the first one is not
    /// posted.
    pub duration: Option<Ns>,
    /// Seed of the payload.
    pub seed: u64,
    /// Every message has its own payload, which is verified.
    pub check: bool,
    /// How the run waits for completions.
    pub wait_mode: WaitMode,
    /// How queue pairs pace themselves.
    pub tuning: Tuning,
}

impl Plan {
    /// The largest size.
    #[must_use]
    pub fn largest(&self) -> u32 {
        self.sizes.iter().copied().max().unwrap_or(1)
    }

    /// Size of a side's completion queue: sends and receives of each queue pair, and one more,
    /// because a ring is never full.
    #[must_use]
    pub const fn cqes(&self) -> u32 {
        (self.qps as u32)
            .saturating_mul(self.depth)
            .saturating_mul(2)
            .saturating_add(1)
    }

    /// Capacities of each queue pair.
    #[must_use]
    pub const fn caps(&self) -> QpCaps {
        QpCaps {
            max_send_wr: self.depth,
            max_recv_wr: self.depth,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: self.inline,
        }
    }

    /// Bytes of registered memory on each side: first the outgoing messages, then the incoming ones.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.largest() as usize * self.places() * 2
    }

    /// The number of objects that a function is brought up for, with `more` queue pairs.
    #[must_use]
    pub fn objects(&self, more: u32) -> Sizes {
        Sizes::of_queue_pairs(self.qps as u32 + more, self.caps())
    }

    /// Fails if no card has such queues.
    ///
    /// # Errors
    /// [`Usage`](crate::usage::Usage).
    pub fn check_queues(&self) -> Result<()> {
        let Self {
            qps, depth, inline, ..
        } = self;
        if cq_dma_bytes(self.cqes()).is_none() {
            refuse!(
                "--qps {qps} --depth {depth}: one completion queue cannot hold all their {} completions; give a smaller --qps or --depth",
                self.cqes()
            );
        }
        if self.caps().tracker_words().is_none() {
            refuse!(
                "--depth {depth} --inline {inline}: the card has no queue that long; give a smaller --depth or --inline"
            );
        }
        Ok(())
    }

    /// Number of places for messages on each side, each as large as the largest message.
    #[must_use]
    pub fn places(&self) -> usize {
        match self.check {
            true => self.qps * self.depth as usize,
            false => 1,
        }
    }

    /// The place of message `number` of a queue pair.
    fn place(&self, qp: usize, number: u64) -> usize {
        let depth = u64::from(self.depth.max(1));
        match self.check {
            // Below the depth: 32 bits.
            true => qp * self.depth as usize + (number % depth) as usize,
            false => 0,
        }
    }

    /// Which payload message `number` of a queue pair carries.
    fn content(&self, qp: usize, number: u64) -> u64 {
        match self.check {
            true => (qp as u64) << 40 | number,
            false => 0,
        }
    }
}

/// The outcome of a run of one size, on one side.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Run {
    /// One-way latencies.
    pub latency: Option<Spread>,
    /// Histogram of the latencies.
    pub histogram: Vec<Bucket>,
    /// Time from the first post to the last completion.
    pub elapsed: Ns,
    pub messages: u64,
    /// Messages on each queue pair; the average if they differ.
    pub iterations: u64,
    /// The fastest stretch of messages, from its first post to its last
    /// completion.
    pub best_part: Option<(u64, Ns)>,
    /// Payloads verified.
    pub verified: u64,
    /// Payloads that were not as expected.
    pub errors: u64,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Bandwidth {
    /// MiB/s in the fastest stretch of messages, from its first post to its last
    /// completion.
    pub peak_mib_s: f64,
    /// MiB/s over the run.
    pub average_mib_s: f64,
    /// The peak in Gbit/s, 10^9 bits of payload a second.
    pub peak_gbit_s: f64,
    /// Gbit/s over the run.
    pub average_gbit_s: f64,
    /// Million messages a second over the run.
    pub mpps: f64,
}

impl Run {
    /// The bandwidth of messages of `size` bytes; `None` when nothing took time.
    #[must_use]
    pub fn bandwidth(&self, size: u32) -> Option<Bandwidth> {
        let rate =
            |messages: u64, time: Ns| (time.0 > 0).then(|| messages as f64 * 1e9 / time.0 as f64);
        let mib = f64::from(size) / f64::from(1 << 20);
        let average = rate(self.messages, self.elapsed)?;
        let best = self
            .best_part
            .and_then(|(messages, time)| rate(messages, time));
        let peak = best.unwrap_or(average).max(average);
        let gbit = f64::from(size) * 8.0 / 1e9;
        Some(Bandwidth {
            peak_mib_s: peak * mib,
            average_mib_s: average * mib,
            peak_gbit_s: peak * gbit,
            average_gbit_s: average * gbit,
            mpps: average / 1e6,
        })
    }
}

#[cfg(test)]
mod tests;
