//! The report, in the columns of existing tools.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use super::{Bandwidth, Floor, Plan, Run, Spread, Test};

/// A line of the table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Bytes of a message.
    pub bytes: u32,
    /// Messages on each queue pair.
    pub iterations: u64,
    /// One-way latency in nanoseconds; absent in virtual time and for `bw`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Spread>,
    /// Bandwidth; absent in virtual time and for `lat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Payloads that were looked at, here and (in this process) there.
    pub verified: u64,
    /// Payloads that were not as sent.
    pub errors: u64,
}

/// The JSON of `e810 perf`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PerfReport {
    /// What carried the messages; `simulated` is no card.
    pub transport: &'static str,
    /// `send`, `write` or `read`.
    pub op: &'static str,
    /// `lat` or `bw`.
    pub test: &'static str,
    /// Queue pairs.
    pub qps: usize,
    /// Messages outstanding on each.
    pub depth: u32,
    /// Messages up to so many bytes go inline.
    pub inline: u32,
    /// Requests posted with one doorbell.
    pub post_list: u32,
    /// Every message had payload of its own.
    pub check: bool,
    /// A cache line from one processor to another in the same run, in
    /// nanoseconds; for `lat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_to_core_ns: Option<Floor>,
    /// A line for each size.
    pub rows: Vec<Row>,
}

impl PerfReport {
    /// A report without lines.
    #[must_use]
    pub fn new(plan: &Plan, transport: &'static str, floor: Option<Floor>) -> Self {
        Self {
            transport,
            op: plan.op.name(),
            test: plan.test.name(),
            qps: plan.qps,
            depth: plan.depth,
            inline: plan.inline,
            post_list: plan.post_list,
            check: plan.check,
            core_to_core_ns: floor,
            rows: Vec::new(),
        }
    }

    /// Adds what messages of `size` bytes came to; `timed` where times mean
    /// something.
    pub fn add(&mut self, plan: &Plan, size: u32, run: &Run, timed: bool) {
        let is = |test| timed && plan.test == test;
        self.rows.push(Row {
            bytes: size,
            iterations: plan.iterations,
            latency_ns: run.latency.filter(|_| is(Test::Latency)),
            bandwidth: run.bandwidth(size).filter(|_| is(Test::Bandwidth)),
            verified: run.verified,
            errors: run.errors,
        });
    }

    /// Payloads that were not as sent.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.rows.iter().map(|row| row.errors).sum()
    }
}

/// Prints the table; `text` says what carried the messages and `label` what the
/// figures are.
///
/// # Errors
/// Where it goes.
pub fn print(report: &PerfReport, text: &str, label: &str, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "transport   {text}")?;
    writeln!(
        out,
        "{:<4} {:<6} {} queue pair(s), depth {}, inline {}, post list {} ({label})",
        report.op, report.test, report.qps, report.depth, report.inline, report.post_list
    )?;
    if let Some(floor) = report.core_to_core_ns {
        writeln!(
            out,
            "floor       a cache line from processor {} to {}: min {} ns  p50 {} ns",
            floor.cpus[0], floor.cpus[1], floor.min, floor.p50
        )?;
    }
    let has_times = |row: &Row| row.latency_ns.is_some() || row.bandwidth.is_some();
    let timed = report.rows.iter().any(has_times);
    let columns: &[&str] = match (timed, report.test) {
        (false, _) => &["verified"],
        (true, "lat") => &[
            "t_min[usec]",
            "t_max[usec]",
            "t_typical[usec]",
            "t_avg[usec]",
            "t_stdev[usec]",
            "99%[usec]",
            "99.9%[usec]",
        ],
        (true, _) => &["BW peak[MiB/sec]", "BW average[MiB/sec]", "MsgRate[Mpps]"],
    };
    write!(out, " {:<10} {:<12}", "#bytes", "#iterations")?;
    for column in columns {
        write!(out, " {column:<16}")?;
    }
    writeln!(out)?;
    for row in &report.rows {
        write!(out, " {:<10} {:<12}", row.bytes, row.iterations)?;
        let us = |ns: f64| format!("{:.2}", ns / 1e3);
        let whole = |ns: u64| us(ns as f64);
        let values = match (row.latency_ns, row.bandwidth) {
            (Some(latency), _) => vec![
                whole(latency.min),
                whole(latency.max),
                whole(latency.typical),
                us(latency.average),
                us(latency.stdev),
                whole(latency.p99),
                whole(latency.p999),
            ],
            (None, Some(bandwidth)) => vec![
                format!("{:.2}", bandwidth.peak_mib_s),
                format!("{:.2}", bandwidth.average_mib_s),
                format!("{:.6}", bandwidth.mpps),
            ],
            (None, None) => vec![row.verified.to_string()],
        };
        for value in values {
            write!(out, " {value:<16}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
