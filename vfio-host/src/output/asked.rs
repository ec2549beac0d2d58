//! What a run was asked for, so that its report says under which conditions it holds.

use e810::Mtu;
use e810_hal::Ns;
use serde::Serialize;

use crate::cli::{PairArgs, TuningArg};

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
    /// What `pair` asks for, and so many `iterations` or a `duration`.
    pub(crate) fn new(pair: &PairArgs, iterations: u64, duration: Option<Ns>) -> Self {
        let moderation = || match pair.moderation {
            Some(moderation) => moderation.to_string(),
            None => "off".to_owned(),
        };
        Self {
            iterations: duration.is_none().then_some(iterations),
            duration_s: duration.map(|time| time.0 as f64 / 1e9),
            seed: pair.seed,
            events: pair.events,
            moderation: pair.events.then(moderation),
            tuning: pair.tuning.name(),
            mtu: pair.start.mtu,
            path_mtu: pair.address.path_mtu.map(Mtu::bytes),
        }
    }

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
