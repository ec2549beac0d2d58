//! A view as text.

use std::io::Write;

use anyhow::Result;

use super::connections::{ConnectionsSnapshot, summary};
use super::snapshot::{AsyncEventSnapshot, DepthSnapshot};
use super::view::{CqView, FunctionView, VectorView, View};
use crate::output::terminal::{self, Paint, Size};
use crate::output::units::link_speed;
use crate::output::wrap::wrap;

/// Counters in a line.
const IN_A_LINE: usize = 4;

/// How a view is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Layout {
    /// Characters of a line; `None`: no limit.
    width: Option<usize>,
    /// Idle vectors are counted instead of shown.
    hides_idle: bool,
    /// Maximum lines of counters for each function.
    counters: Option<usize>,
    /// No empty line between functions.
    is_dense: bool,
}

/// Width from which the columns have their full width.
const WIDE: usize = 90;
/// Width below which columns are left out.
const NARROW: usize = 76;

impl Layout {
    /// The widths of the columns; the last two are 0 if there is no room for them.
    const fn columns(&self) -> [usize; 7] {
        match self.width {
            Some(width) if width < NARROW => [3, 14, 10, 11, 11, 0, 0],
            Some(width) if width < WIDE => [3, 14, 10, 11, 11, 7, 12],
            _ => [7, 16, 12, 12, 13, 8, 13],
        }
    }

    /// A line of the table.
    fn line(&self, fields: [&str; 7]) -> String {
        let mut line = String::from(" ");
        for (place, (field, width)) in fields.iter().zip(self.columns()).enumerate() {
            match (place, width) {
                (_, 0) => {}
                (0 | 1, width) => line.push_str(&format!(" {field:<width$}")),
                (_, width) => line.push_str(&format!(" {field:>width$}")),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }

    /// Counters in a line.
    fn in_a_line(&self) -> usize {
        // Two spaces, then counters with three spaces between them.
        let fitting = self.width.map(|width| (width + 1) / COUNTER);
        fitting.map_or(IN_A_LINE, |fitting| fitting.clamp(1, IN_A_LINE))
    }
}

/// Characters of a counter, with the gap.
const COUNTER: usize = 12 + 1 + 8 + 3;

/// Prints a view; on a terminal its lines fit the width.
///
/// # Errors
/// Where it goes.
pub fn print(view: &View, out: &mut dyn Write) -> Result<()> {
    let width = terminal::size_now().map(|size| size.columns);
    let layout = Layout {
        width,
        ..Layout::default()
    };
    for line in lines(view, layout) {
        writeln!(out, "{}", wrap(&line, width.unwrap_or(usize::MAX)))?;
    }
    Ok(())
}

/// Prints a view that fits the terminal, so that nothing scrolls away. The least important parts
/// are left out first.
///
/// # Errors
/// Where it goes.
pub fn print_within(view: &View, size: Size, out: &mut dyn Write) -> Result<()> {
    // The cursor needs a line.
    let room = size.rows.saturating_sub(1).max(1);
    let width = Some(size.columns);
    let layout = |hides_idle, counters, is_dense| Layout {
        width,
        hides_idle,
        counters,
        is_dense,
    };
    let layouts = [
        layout(false, None, false),
        layout(true, None, false),
        layout(true, Some(2), false),
        layout(true, Some(1), true),
        layout(true, Some(0), true),
    ];
    let mut shown: Vec<String> = Vec::new();
    for layout in layouts {
        let lines = lines(view, layout).into_iter();
        let broken = lines.map(|line| wrap(&line, size.columns));
        // An empty line counts too.
        let split = |text: String| text.split('\n').map(str::to_owned).collect::<Vec<_>>();
        shown = broken.flat_map(split).collect();
        if shown.len() <= room {
            break;
        }
    }
    let left_out = shown.len().saturating_sub(room);
    if left_out > 0 {
        shown.truncate(room.saturating_sub(1));
        shown.push(format!(
            "  {} more lines: enlarge the terminal",
            left_out + 1
        ));
    }
    for line in shown {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn lines(view: &View, layout: Layout) -> Vec<String> {
    let mut lines = vec![format!(
        "{} (process {}), rates in 1/s over the last {:.2} s",
        view.command,
        view.pid,
        view.interval_ns as f64 / 1e9
    )];
    for function in &view.functions {
        if !layout.is_dense {
            lines.push(String::new());
        }
        function_lines(function, layout, &mut lines);
    }
    for name in &view.silent {
        if !layout.is_dense {
            lines.push(String::new());
        }
        lines.push(format!(
            "{name} does not answer: it is starting, or its loop is blocked"
        ));
    }
    lines
}

fn function_lines(function: &FunctionView, layout: Layout, lines: &mut Vec<String>) {
    let port = &function.port;
    let speed = link_speed(port.link_mbps);
    let state = match port.state.as_str() {
        "active" => Paint::Good,
        _ => Paint::Bad,
    };
    lines.push(format!(
        "{} ({})   port {}, {speed}, {}",
        Paint::Head.on(&function.name),
        function.device,
        state.on(&port.state),
        port.mac
    ));
    lines.push(layout.line(match layout.width {
        Some(width) if width < WIDE => [
            "vec",
            "for",
            "interrupts",
            "completions",
            "ITR",
            "limit",
            "CEQ waiting",
        ],
        _ => [
            "vector",
            "for",
            "interrupts",
            "completions",
            "ITR in force",
            "limit",
            "CEQ waiting",
        ],
    }));
    let mut hidden = 0;
    for vector in &function.vectors {
        match layout.hides_idle && is_idle(vector) {
            true => hidden += 1,
            false => lines.push(vector_line(vector, layout)),
        }
    }
    if hidden > 0 {
        let plural = if hidden == 1 { "" } else { "s" };
        lines.push(format!("  {hidden} idle vector{plural}"));
    }
    // Those of a served function are its programs'.
    if !function.cqs.is_empty() {
        lines.push(layout.line([
            "CQ",
            "moderation",
            "events",
            "completions",
            "event waits",
            "profile",
            "CQ waiting",
        ]));
    }
    for cq in &function.cqs {
        lines.push(cq_line(cq, layout));
    }
    if let Some(manager) = &function.connection_manager {
        lines.extend(connections_line(manager));
    }
    async_lines(function, lines);
    let counters: Vec<String> = function
        .counters_per_s
        .iter()
        .map(|(name, rate)| format!("{name:<12} {:>8}", human_rate(*rate)))
        .collect();
    if counters.is_empty() {
        lines.push("  no counter grew".to_owned());
    }
    let most = layout.counters.unwrap_or(usize::MAX);
    for line in counters.chunks(layout.in_a_line()).take(most) {
        lines.push(format!("  {}", line.join("   ")));
    }
}

/// Whether a vector has nothing to show.
fn is_idle(vector: &VectorView) -> bool {
    let waiting = vector.snapshot.ceq.map_or(0, |depth| depth.waiting);
    vector.interrupts_per_s == 0.0 && waiting == 0
}

fn vector_line(vector: &VectorView, layout: Layout) -> String {
    let snapshot = &vector.snapshot;
    let of = match (snapshot.asynchronous, snapshot.completion_vector) {
        (true, Some(number)) => format!("async, vector {number}"),
        (true, None) => "async events".to_owned(),
        (false, Some(number)) => format!("comp. vector {number}"),
        (false, None) => "other causes".to_owned(),
    };
    let (itr, limit) = match &snapshot.timing {
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
    layout.line([
        &snapshot.vector.to_string(),
        &of,
        &human_rate(vector.interrupts_per_s),
        &brought,
        &itr,
        &limit,
        &snapshot.ceq.map_or("-".to_owned(), depth),
    ])
}

fn cq_line(cq: &CqView, layout: Layout) -> String {
    let snapshot = &cq.snapshot;
    let profile = snapshot.profile.map_or("-".to_owned(), |profile| {
        format!("{} of {}", u32::from(profile.index) + 1, profile.of)
    });
    let mut line = layout.line([
        &snapshot.number.to_string(),
        &snapshot.moderation,
        &human_rate(cq.events_per_s),
        &human_rate(cq.completions_per_s),
        &format!("{} µs", snapshot.wait_us),
        &profile,
        &depth(snapshot.depth),
    ]);
    if snapshot.failed {
        line.push_str("   it overflowed");
    }
    line
}

/// A line about a manager that has something to do.
fn connections_line(manager: &ConnectionsSnapshot) -> Option<String> {
    if (manager.total, manager.total_listeners) == (0, 0) {
        return None;
    }
    let mut line = format!("  {}", summary(manager));
    let counters = &manager.counters;
    for (count, what) in [
        (counters.repeated, "messages repeated"),
        (counters.rejected.values().sum(), "requests rejected"),
        (counters.dropped.values().sum(), "datagrams dropped"),
    ] {
        if count > 0 {
            line.push_str(&format!("; {count} {what}"));
        }
    }
    Some(line)
}

fn async_lines(function: &FunctionView, lines: &mut Vec<String>) {
    let events = &function.async_events;
    if events.total == 0 {
        return lines.push("  no asynchronous event".to_owned());
    }
    lines.push(format!(
        "  {} asynchronous event{}, the last:",
        events.total,
        if events.total == 1 { "" } else { "s" }
    ));
    for event in &events.last {
        let AsyncEventSnapshot {
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
        lines.push(format!(
            "    {ago:.1} s ago, {object}: {name}: {cause}; {remedy}{reset}"
        ));
    }
}

fn depth(depth: DepthSnapshot) -> String {
    format!("{} of {}", depth.waiting, depth.entries)
}

/// A rate with few digits.
pub(super) fn human_rate(rate: f64) -> String {
    match rate {
        r if r >= 9_999_500.0 => format!("{:.1} M", r / 1e6),
        r if r >= 999_950.0 => format!("{:.2} M", r / 1e6),
        r if r >= 9_999.5 => format!("{:.1} k", r / 1e3),
        r if r >= 99.95 || r == 0.0 => format!("{r:.0}"),
        r => format!("{r:.1}"),
    }
}
