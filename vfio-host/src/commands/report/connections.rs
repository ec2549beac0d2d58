//! Connections of a running command, for a report.

use std::path::Path;

use anyhow::Result;
use e810_report::identities::without_addresses;
use e810_report::passive::Identities;
use e810_report::{Journal, Medium, Record};
use serde_json::json;

use crate::commands::connections::snapshot_at;
use crate::monitor::ConnectionsSnapshot;

/// The records of the command whose socket is `path`, one of each function.
///
/// # Errors
/// It does not answer, or has ended.
pub(super) fn records(path: &Path, identities: Identities) -> Result<Vec<Record>> {
    let snapshot = snapshot_at(path)?;
    let mut records = Vec::new();
    for function in snapshot.functions {
        let mut manager = function.connection_manager;
        let mut device = function.device;
        if identities == Identities::Removed {
            manager.iter_mut().for_each(remove_addresses);
            device = without_addresses(&device);
        }
        records.push(Record::Connections {
            command: snapshot.command.clone(),
            function: function.name,
            device,
            manager: manager.map(|manager| json!(manager)),
        });
    }
    for name in snapshot.silent {
        records.push(Record::Absent {
            what: format!("connections of {name}"),
            why: "it does not answer".to_owned(),
        });
    }
    Ok(records)
}

/// IPv6 addresses can be made of Ethernet addresses, so all are taken out.
fn remove_addresses(manager: &mut ConnectionsSnapshot) {
    let removed = || "removed".to_owned();
    for each in &mut manager.connections {
        (each.own, each.peer) = (removed(), removed());
    }
    for each in &mut manager.listeners {
        each.own = removed();
    }
}

/// Puts records into a report.
///
/// # Errors
/// Of its file.
pub(super) fn put<M: Medium>(journal: &mut Journal<M>, records: &[Record]) -> Result<()> {
    for record in records {
        journal.put(record)?;
    }
    Ok(())
}
