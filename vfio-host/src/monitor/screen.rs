//! A view as text.

use std::io::Write;

use anyhow::Result;

use super::seen::{AsyncSeen, DepthSeen};
use super::view::{CqView, FunctionView, VectorView, View};
use crate::report::link_speed;

/// Counters in a line.
const IN_A_LINE: usize = 4;

/// Prints a view.
///
/// # Errors
/// Where it goes.
pub fn print(view: &View, out: &mut dyn Write) -> Result<()> {
    writeln!(
        out,
        "{} (process {}), rates in 1/s over the last {:.2} s",
        view.command,
        view.pid,
        view.interval_ns as f64 / 1e9
    )?;
    for function in &view.functions {
        writeln!(out)?;
        function_lines(function, out)?;
    }
    for name in &view.silent {
        writeln!(
            out,
            "\n{name} does not answer: it is starting, or its loop is held up"
        )?;
    }
    Ok(())
}

fn function_lines(function: &FunctionView, out: &mut dyn Write) -> Result<()> {
    let port = &function.port;
    let speed = link_speed(port.link_mbps);
    writeln!(
        out,
        "{} ({})   port {}, {speed}, {}",
        function.name, function.device, port.state, port.mac
    )?;
    writeln!(
        out,
        "  {:<7} {:<16} {:>12} {:>12} {:>13} {:>8} {:>13}",
        "vector", "for", "interrupts", "completions", "ITR in force", "limit", "CEQ waiting"
    )?;
    for vector in &function.vectors {
        vector_line(vector, out)?;
    }
    writeln!(
        out,
        "  {:<7} {:<16} {:>12} {:>12} {:>13} {:>8} {:>13}",
        "CQ", "moderation", "events", "completions", "event waits", "profile", "CQ waiting"
    )?;
    for cq in &function.cqs {
        cq_line(cq, out)?;
    }
    async_lines(function, out)?;
    let counters: Vec<String> = function
        .counters_per_s
        .iter()
        .map(|(name, rate)| format!("{name:<12} {:>8}", human_rate(*rate)))
        .collect();
    if counters.is_empty() {
        writeln!(out, "  no counter grew")?;
    }
    for line in counters.chunks(IN_A_LINE) {
        writeln!(out, "  {}", line.join("   "))?;
    }
    Ok(())
}

fn vector_line(vector: &VectorView, out: &mut dyn Write) -> Result<()> {
    let seen = &vector.seen;
    let of = match (seen.asynchronous, seen.completion_vector) {
        (true, Some(number)) => format!("async, vector {number}"),
        (true, None) => "async events".to_owned(),
        (false, Some(number)) => format!("comp. vector {number}"),
        (false, None) => "other causes".to_owned(),
    };
    let (itr, limit) = match &seen.timing {
        None => ("-".to_owned(), "-".to_owned()),
        Some(timing) => (
            match timing.timer.as_str() {
                "none" => "none".to_owned(),
                timer => format!("{timer} {} µs", timing.interval_us),
            },
            match timing.limit_us {
                0 => "none".to_owned(),
                us => format!("{us} µs"),
            },
        ),
    };
    let brought = match vector.completions_per_interrupt {
        Some(each) => format!("{each:.1} each"),
        None => "-".to_owned(),
    };
    writeln!(
        out,
        "  {:<7} {of:<16} {:>12} {brought:>12} {itr:>13} {limit:>8} {:>13}",
        seen.vector,
        human_rate(vector.interrupts_per_s),
        seen.ceq.map_or("-".to_owned(), depth)
    )?;
    Ok(())
}

fn cq_line(cq: &CqView, out: &mut dyn Write) -> Result<()> {
    let seen = &cq.seen;
    let profile = seen.profile.map_or("-".to_owned(), |profile| {
        format!("{} of {}", u32::from(profile.index) + 1, profile.of)
    });
    writeln!(
        out,
        "  {:<7} {:<16} {:>12} {:>12} {:>13} {profile:>8} {:>13}{}",
        seen.number,
        seen.moderation,
        human_rate(cq.events_per_s),
        human_rate(cq.completions_per_s),
        format!("{} µs", seen.wait_us),
        depth(seen.depth),
        if seen.failed { "   it overflowed" } else { "" }
    )?;
    Ok(())
}

fn async_lines(function: &FunctionView, out: &mut dyn Write) -> Result<()> {
    let events = &function.async_events;
    if events.total == 0 {
        writeln!(out, "  no asynchronous event")?;
        return Ok(());
    }
    writeln!(
        out,
        "  {} asynchronous event{}, the last:",
        events.total,
        if events.total == 1 { "" } else { "s" }
    )?;
    for event in &events.last {
        let AsyncSeen {
            ago_ns,
            name,
            object,
            cause,
            remedy,
            needs_reset,
        } = event;
        let reset = if *needs_reset {
            " (only a reset helps)"
        } else {
            ""
        };
        let ago = *ago_ns as f64 / 1e9;
        writeln!(
            out,
            "    {ago:.1} s ago, {object}: {name}: {cause}; {remedy}{reset}"
        )?;
    }
    Ok(())
}

fn depth(depth: DepthSeen) -> String {
    format!("{} of {}", depth.waiting, depth.entries)
}

/// A rate in few digits.
pub(super) fn human_rate(rate: f64) -> String {
    match rate {
        r if r >= 9_999_500.0 => format!("{:.1} M", r / 1e6),
        r if r >= 999_950.0 => format!("{:.2} M", r / 1e6),
        r if r >= 9_999.5 => format!("{:.1} k", r / 1e3),
        r if r >= 99.95 || r == 0.0 => format!("{r:.0}"),
        r => format!("{r:.1}"),
    }
}
