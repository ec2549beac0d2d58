//! `e810 connections`: the connections of a running command, and what their manager has counted.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::cli::ConnectionsArgs;
use crate::monitor::{Client, ConnectionsSnapshot, Snapshot, print_connections};
use crate::output::json;
use crate::usage::refuse;

/// The JSON of `e810 connections`.
#[derive(Serialize)]
struct ConnectionsReport<'a> {
    command: &'a str,
    pid: u32,
    functions: Vec<FunctionReport<'a>>,
    silent: &'a [String],
}

#[derive(Serialize)]
struct FunctionReport<'a> {
    name: &'a str,
    device: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_manager: Option<&'a ConnectionsSnapshot>,
}

/// Runs the command.
///
/// # Errors
/// No command that answers.
pub fn run(args: &ConnectionsArgs, out: &mut dyn Write) -> Result<()> {
    let Some(path) = &args.at else {
        refuse!(
            "connections belong to a running command: start it with --monitor PATH (`e810 pingpong --cm --monitor PATH`), and name the same PATH here with --at"
        );
    };
    let snapshot = snapshot_at(path)?;
    if !args.json {
        return print_connections(&snapshot, out);
    }
    let functions = snapshot.functions.iter().map(|function| FunctionReport {
        name: &function.name,
        device: &function.device,
        connection_manager: function.connection_manager.as_ref(),
    });
    let report = ConnectionsReport {
        command: &snapshot.command,
        pid: snapshot.pid,
        functions: functions.collect(),
        silent: &snapshot.silent,
    };
    json::write_line(out, "connections", &report)
}

/// One snapshot of the command whose socket is `path`.
///
/// # Errors
/// It does not answer, or has ended.
pub(super) fn snapshot_at(path: &Path) -> Result<Snapshot> {
    let mut client = Client::connect(path).context("--at")?;
    let snapshot = client.snapshot().context("--at")?;
    snapshot.with_context(|| format!("--at {}: the command has ended", path.display()))
}
