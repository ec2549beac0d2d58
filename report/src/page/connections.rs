//! Connections of a running command, as lines of the page.

use std::fmt::Write;

use serde_json::Value;

use crate::document::Document;
use crate::record::Record;

pub(super) fn write_connections(out: &mut String, document: &Document) -> std::fmt::Result {
    for record in &document.records {
        if let Record::Connections {
            command,
            function,
            device,
            manager,
        } = record
        {
            let said = manager.as_ref().map_or_else(none, summary);
            writeln!(out, "connections {command}, {function} ({device}): {said}")?;
        }
    }
    Ok(())
}

fn none() -> String {
    "no connection manager".to_owned()
}

fn summary(manager: &Value) -> String {
    let number = |path: &str| manager.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let states = manager.get("states").and_then(Value::as_object);
    let states = states.into_iter().flatten();
    let states: Vec<_> = states.map(|(state, of)| format!("{of} {state}")).collect();
    let states = match states.is_empty() {
        true => String::new(),
        false => format!(" ({})", states.join(", ")),
    };
    let sum = |path: &str| {
        let counts = manager.pointer(path).and_then(Value::as_object);
        let counts = counts.into_iter().flatten();
        counts.filter_map(|(_, count)| count.as_u64()).sum::<u64>()
    };
    format!(
        "connections {}{states}, listeners {}, messages repeated {}, requests rejected {}, datagrams dropped {}",
        number("/total"),
        number("/total_listeners"),
        number("/counters/repeated"),
        sum("/counters/rejected"),
        sum("/counters/dropped")
    )
}
