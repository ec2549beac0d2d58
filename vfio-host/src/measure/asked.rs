//! The parameters of a run, which its report repeats.

use serde::Serialize;

use crate::settings::TuningArg;

/// The parameters of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Asked {
    /// Messages of each size, on each queue pair; `null` if the run has a duration.
    pub iterations: Option<u64>,
    /// Seconds; `null` if messages are counted.
    pub duration_s: Option<f64>,
    /// Seed of the payload.
    pub seed: u64,
    /// The run waits for interrupts.
    pub events: bool,
    /// The moderation, in the form of `--moderation`; `null` without `events`.
    pub moderation: Option<String>,
    /// The tuning, in the form of `--tuning`.
    pub tuning: &'static str,
    /// MTU of the interface in bytes; `null` if it was not given.
    pub mtu: Option<u16>,
    /// Path MTU in bytes; `null` if it was not given.
    pub path_mtu: Option<u32>,
}

impl Asked {
    /// The parameters that are not the default and change the figures, in words.
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
