//! What a run was asked for, so that its report says under which conditions it holds.

use serde::Serialize;

use crate::settings::TuningArg;

/// What a run was asked for.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Asked {
    /// Messages of each size, on each queue pair; `null` where a time was asked for.
    pub iterations: Option<u64>,
    /// Seconds; `null` where messages are counted.
    pub duration_s: Option<f64>,
    /// Seed of the payload.
    pub seed: u64,
    /// Completions are waited for by interrupts.
    pub events: bool,
    /// What delays these, as `--moderation` names it; `null` without `events`.
    pub moderation: Option<String>,
    /// How queue pairs pace themselves, as `--tuning` names it.
    pub tuning: &'static str,
    /// MTU of the interface in bytes; `null` where it was not given.
    pub mtu: Option<u16>,
    /// Path MTU in bytes; `null` where it was not given.
    pub path_mtu: Option<u32>,
}

impl Asked {
    /// What changes figures and is not as it is without options, in words.
    #[must_use]
    pub fn unusual(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(moderation) = &self.moderation {
            parts.push(format!("events, moderation {moderation}"));
        }
        if self.tuning != TuningArg::Linux.name() {
            parts.push(format!("tuning {}", self.tuning));
        }
        parts.extend(self.mtu.map(|mtu| format!("MTU {mtu}")));
        parts.extend(self.path_mtu.map(|mtu| format!("path MTU {mtu}")));
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}
