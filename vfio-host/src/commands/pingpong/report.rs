//! What `e810 pingpong` prints, in words and as JSON.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use crate::cli::{PingpongArgs, ServiceArg};
use crate::measure::asked::Asked;
use crate::measure::ended::Ending;
use crate::measure::latency::Summary;
use crate::measure::op::PingpongOp;
use crate::measure::pingpong::{Outcome, Plan};
use crate::output::counters::{Counters, by_name, print_counters};
use crate::output::json;
use crate::output::units::human_ns;
use crate::output::wire::WireReport;
use crate::pci_functions::workload::TransportLabel;

/// The JSON of `e810 pingpong`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PingpongReport {
    /// What carried the packets: `simulated` in this process, or `vfio-user`.
    pub transport: &'static str,
    /// The simulated wire; absent if this process does not simulate it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireReport>,
    /// How it ended. If not `complete`, there are fewer iterations than were asked for.
    #[serde(flatten)]
    pub ending: Ending,
    pub asked: Asked,
    /// `rc` or `ud`.
    pub service: &'static str,
    /// `send`, `write` or `read`.
    pub op: &'static str,
    /// Bytes of payload in a message.
    pub size: u32,
    /// Iterations done.
    pub iterations: u64,
    /// Iterations whose every byte was as expected.
    pub verified: u64,
    /// Iterations that differed.
    pub errors: u64,
    /// Datagrams that were sent again; absent for a reliable connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Interrupts of the functions of this process; absent without `--events`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<u64>,
    /// How much the counters of each function of this process have grown, the initiator first;
    /// absent unless asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<Counters>,
    /// Latencies; absent in virtual time, which measures nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Summary>,
    /// Messages with payload per second, both directions together; absent in
    /// virtual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_second: Option<f64>,
}

/// The report of a run that ended like this.
pub(super) fn report(
    args: &PingpongArgs,
    plan: &Plan,
    transport: &TransportLabel,
    outcome: Outcome,
    ending: Ending,
) -> PingpongReport {
    let seconds = outcome.elapsed.0 as f64 / 1e9;
    // Virtual time counts events, so a rate would mean nothing.
    let timed = !args.pair.virtual_time;
    PingpongReport {
        transport: transport.name,
        wire: transport.wire.clone(),
        ending,
        asked: args.pair.asked(plan.iterations, plan.duration),
        service: args.transport.name(),
        op: plan.op.name(),
        size: plan.size,
        iterations: outcome.iterations,
        verified: outcome.verified,
        errors: outcome.errors,
        messages_per_second: (timed && seconds > 0.0).then(|| outcome.messages as f64 / seconds),
        counters: outcome.counters.iter().map(by_name).collect(),
        lost: (args.transport == ServiceArg::Ud).then_some(outcome.lost),
        interrupts: args.pair.events.then_some(outcome.interrupts),
        latency_ns: timed.then(|| outcome.latencies.summary()).flatten(),
    }
}

/// Prints it.
///
/// # Errors
/// Where it goes.
pub(super) fn print(
    args: &PingpongArgs,
    transport: &TransportLabel,
    report: &PingpongReport,
    out: &mut dyn Write,
) -> Result<()> {
    if args.json {
        return json::write_line(out, "pingpong", report);
    }
    let time = if args.pair.virtual_time {
        "virtual time"
    } else {
        "real time"
    };
    writeln!(
        out,
        "transport   {}, {time}{}",
        transport.text, transport.details
    )?;
    if let Some(wire) = &report.wire {
        writeln!(out, "wire        {wire}")?;
    }
    if let Some(unusual) = report.asked.unusual() {
        writeln!(out, "options     {unusual}")?;
    }
    if report.ending.is_partial() {
        let of = report.asked.iterations.map(|all| format!(" of {all}"));
        writeln!(
            out,
            "ended       {}, after {}{} messages{}",
            report.ending.ended,
            report.iterations,
            of.unwrap_or_default(),
            report.ending.by()
        )?;
    }
    writeln!(
        out,
        "verified    {} of {} × {} B {} ({} errors)",
        report.verified, report.iterations, report.size, report.op, report.errors
    )?;
    if let Some(lost) = report.lost {
        writeln!(out, "datagrams   {lost} sent again")?;
    }
    if let Some(frames) = report.wire.as_ref().and_then(|wire| wire.frames) {
        writeln!(out, "frames      {frames}")?;
    }
    if let Some(interrupts) = report.interrupts {
        writeln!(
            out,
            "interrupts  {interrupts}, of the functions of this process"
        )?;
    }
    if let Some(latency) = report.latency_ns {
        let what = match args.op {
            PingpongOp::Send | PingpongOp::SendInv => "half the round trip",
            _ => "post to completion",
        };
        writeln!(
            out,
            "latency     min {}  p50 {}  p99 {}  max {}  ({}; {what})",
            human_ns(latency.min),
            human_ns(latency.p50),
            human_ns(latency.p99),
            human_ns(latency.max),
            transport.label
        )?;
    }
    if let Some(rate) = report.messages_per_second {
        writeln!(
            out,
            "rate        {rate:.*} messages/s ({})",
            // Two decimals, so that a low rate is not rounded to 0.
            if rate < 10.0 { 2 } else { 0 },
            transport.label
        )?;
    }
    for (function, counters) in report.counters.iter().enumerate() {
        let whose = match args.qp_counters {
            true => "the queue pair of ",
            false => "",
        };
        writeln!(out, "counters of {whose}function {function}")?;
        print_counters(counters, out)?;
    }
    Ok(())
}
