//! A connection manager as text.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;

use super::{ConnectionSnapshot, ConnectionsSnapshot, ListenerSnapshot, ServiceSnapshot};
use crate::monitor::{SERVE, Snapshot};
use crate::output::terminal::{self, Paint};
use crate::output::wrap::wrap;

/// Prints the connection managers of all functions; on a terminal the lines fit its width.
///
/// # Errors
/// Where it goes.
pub fn print(snapshot: &Snapshot, out: &mut dyn Write) -> Result<()> {
    let width = terminal::size_now().map_or(usize::MAX, |size| size.columns);
    for line in lines(snapshot) {
        writeln!(out, "{}", wrap(&line, width))?;
    }
    Ok(())
}

pub(super) fn lines(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = vec![format!("{} (process {})", snapshot.command, snapshot.pid)];
    for function in &snapshot.functions {
        lines.push(String::new());
        let said = match &function.connection_manager {
            None if snapshot.command == SERVE => "no program has connected or listened".to_owned(),
            None => "it has no connection manager: start the command with --cm".to_owned(),
            Some(manager) => summary(manager),
        };
        lines.push(format!(
            "{} ({})   {said}",
            Paint::Head.on(&function.name),
            function.device
        ));
        if let Some(manager) = &function.connection_manager {
            manager_lines(manager, &mut lines);
        }
    }
    for name in &snapshot.silent {
        lines.push(String::new());
        lines.push(format!(
            "{name} does not answer: it is starting, or its loop is blocked"
        ));
    }
    lines
}

/// How many connections and listeners there are.
#[must_use]
pub fn summary(manager: &ConnectionsSnapshot) -> String {
    let connections = match manager.total {
        0 => "no connection".to_owned(),
        total => {
            let states = manager.states.iter();
            let states: Vec<_> = states.map(|(state, of)| format!("{of} {state}")).collect();
            let plural = if total == 1 { "" } else { "s" };
            format!("{total} connection{plural} ({})", states.join(", "))
        }
    };
    let listeners = match manager.total_listeners {
        0 => "no listener".to_owned(),
        1 => "1 listener".to_owned(),
        many => format!("{many} listeners"),
    };
    format!("{connections}, {listeners}")
}

fn manager_lines(manager: &ConnectionsSnapshot, lines: &mut Vec<String>) {
    let connections = manager.connections.iter().map(connection);
    let heads = ["state", "role", "peer", "QPs", "service", "age", "repeats"];
    table(heads, connections.collect(), lines);
    let left_out = |total: u64, shown: usize| total.saturating_sub(shown as u64);
    let left = left_out(manager.total, manager.connections.len());
    if left > 0 {
        lines.push(format!(
            "  {left} more connections are not shown, which are older or in TIMEWAIT"
        ));
    }
    let listeners = manager.listeners.iter().map(listener);
    table(
        ["listens on", "service", "waiting"],
        listeners.collect(),
        lines,
    );
    let left = left_out(manager.total_listeners, manager.listeners.len());
    if left > 0 {
        lines.push(format!("  {left} more listeners are not shown"));
    }
    let counters = &manager.counters;
    for (label, counts) in [("sent", &counters.sent), ("received", &counters.received)] {
        counted(label, counts, lines);
    }
    for (label, count) in [
        ("repeated", counters.repeated),
        ("duplicates", counters.duplicates),
    ] {
        if count > 0 {
            lines.push(format!("  {label:<10}  {count}"));
        }
    }
    for (label, counts) in [
        ("rejected", &counters.rejected),
        ("dropped", &counters.dropped),
    ] {
        counted(label, counts, lines);
    }
}

/// The counts that are not 0.
fn counted(label: &str, counts: &BTreeMap<String, u64>, lines: &mut Vec<String>) {
    let counts = counts.iter().filter(|(_, count)| **count > 0);
    let counts: Vec<_> = counts
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if !counts.is_empty() {
        lines.push(format!("  {label:<10}  {}", counts.join(", ")));
    }
}

/// The rows with columns as wide as what is in them.
fn table<const N: usize>(heads: [&str; N], rows: Vec<[String; N]>, lines: &mut Vec<String>) {
    if rows.is_empty() {
        return;
    }
    let mut rows: Vec<_> = rows.into_iter().map(Vec::from).collect();
    rows.insert(0, heads.map(str::to_owned).into());
    let mut widths = [0; N];
    for row in &rows {
        for (width, field) in widths.iter_mut().zip(row) {
            *width = field.chars().count().max(*width);
        }
    }
    for row in rows {
        let fields = row.iter().zip(widths);
        let line: String = fields
            .map(|(field, width)| format!("  {field:<width$}"))
            .collect();
        lines.push(line.trim_end().to_owned());
    }
}

fn connection(each: &ConnectionSnapshot) -> [String; 7] {
    let number = |qp: Option<u32>| qp.map_or("?".to_owned(), |number| number.to_string());
    let vlan = each.vlan.map(|vlan| format!(" VLAN {vlan}"));
    [
        each.state.clone(),
        each.role.clone(),
        at(&each.peer, each.peer_port) + vlan.as_deref().unwrap_or_default(),
        format!("{}-{}", number(each.own_qp), number(each.peer_qp)),
        service(&each.service),
        format!("{:.1} s", each.age_ns as f64 / 1e9),
        each.repeats.to_string(),
    ]
}

fn listener(each: &ListenerSnapshot) -> [String; 3] {
    [
        each.own.clone(),
        service(&each.service),
        format!("{} of {}", each.waiting, each.backlog),
    ]
}

/// An address with its port.
fn at(address: &str, port: Option<u16>) -> String {
    match port {
        None => address.to_owned(),
        Some(port) if address.contains(':') => format!("[{address}]:{port}"),
        Some(port) => format!("{address}:{port}"),
    }
}

fn service(service: &ServiceSnapshot) -> String {
    format!("{} {}", service.space, service.port)
}
