//! Rates between two snapshots.

use std::collections::BTreeMap;

use serde::Serialize;

use super::connections::ConnectionsSnapshot;
use super::snapshot::{
    AsyncEventsSnapshot, CqSnapshot, FunctionSnapshot, PortSnapshot, Snapshot, VectorSnapshot,
};

/// The JSON of `e810 monitor`: states and rates.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct View {
    /// What the process does: the name of its command.
    pub command: String,
    pub pid: u32,
    /// Time between the two snapshots, in ns.
    pub interval_ns: u64,
    pub functions: Vec<FunctionView>,
    /// Functions that did not answer in time.
    pub silent: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FunctionView {
    /// Its name in the process.
    pub name: String,
    /// How it is reached.
    pub device: String,
    pub port: PortSnapshot,
    /// Its interrupt vectors.
    pub vectors: Vec<VectorView>,
    /// Its completion queues.
    pub cqs: Vec<CqView>,
    /// Its asynchronous events.
    pub async_events: AsyncEventsSnapshot,
    pub counters: BTreeMap<String, u64>,
    /// Rates per second of the counters that grew.
    pub counters_per_s: BTreeMap<String, f64>,
    /// Its connection manager, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_manager: Option<ConnectionsSnapshot>,
}

/// An interrupt vector.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct VectorView {
    /// As it was seen.
    #[serde(flatten)]
    pub snapshot: VectorSnapshot,
    /// Interrupts a second.
    pub interrupts_per_s: f64,
    /// Completions of its queues for each interrupt; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions_per_interrupt: Option<f64>,
}

/// A completion queue.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CqView {
    /// As it was seen.
    #[serde(flatten)]
    pub snapshot: CqSnapshot,
    /// Completions a second.
    pub completions_per_s: f64,
    /// Events a second.
    pub events_per_s: f64,
}

impl View {
    /// The view from `before` to `after`, two snapshots of one process. A function that is not in
    /// `before` counts from 0.
    #[must_use]
    pub fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let interval_ns = after.at_ns.saturating_sub(before.at_ns);
        let functions = after.functions.iter().map(|function| {
            let earlier = before
                .functions
                .iter()
                .find(|earlier| earlier.name == function.name);
            function_view(earlier, function, Rate(interval_ns))
        });
        Self {
            command: after.command.clone(),
            pid: after.pid,
            interval_ns,
            functions: functions.collect(),
            silent: after.silent.clone(),
        }
    }
}

/// Computes rates over an interval in ns.
#[derive(Clone, Copy)]
struct Rate(u64);

impl Rate {
    fn of(self, count: u64) -> f64 {
        match self.0 {
            0 => 0.0,
            ns => count as f64 * 1e9 / ns as f64,
        }
    }
}

fn function_view(
    before: Option<&FunctionSnapshot>,
    after: &FunctionSnapshot,
    rate: Rate,
) -> FunctionView {
    // Completions of the CQs by vector, for completions per interrupt.
    let mut completed: BTreeMap<u16, u64> = BTreeMap::new();
    let mut cqs = Vec::new();
    for cq in &after.cqs {
        let earlier = before.and_then(|function| {
            let mut cqs = function.cqs.iter();
            cqs.find(|earlier| earlier.number == cq.number)
        });
        let grown = |of: fn(&CqSnapshot) -> u64| of(cq).saturating_sub(earlier.map_or(0, of));
        let completions = grown(|cq| cq.completions);
        *completed.entry(cq.completion_vector).or_default() += completions;
        cqs.push(CqView {
            snapshot: cq.clone(),
            completions_per_s: rate.of(completions),
            events_per_s: rate.of(grown(|cq| cq.events)),
        });
    }
    let vectors = after.vectors.iter().map(|vector| {
        let earlier = before.and_then(|function| {
            let mut vectors = function.vectors.iter();
            vectors.find(|earlier| earlier.vector == vector.vector)
        });
        let earlier = earlier.map_or(0, |earlier| earlier.interrupts);
        let interrupts = vector.interrupts.saturating_sub(earlier);
        let completions = vector
            .completion_vector
            .and_then(|number| completed.get(&number).copied());
        VectorView {
            snapshot: vector.clone(),
            interrupts_per_s: rate.of(interrupts),
            completions_per_interrupt: completions
                .filter(|_| interrupts > 0)
                .map(|completions| completions as f64 / interrupts as f64),
        }
    });
    let grown = |(name, value): (&String, &u64)| {
        let earlier = before.and_then(|function| function.counters.get(name));
        let grown = value.saturating_sub(earlier.copied().unwrap_or(0));
        (grown > 0).then(|| (name.clone(), rate.of(grown)))
    };
    FunctionView {
        name: after.name.clone(),
        device: after.device.clone(),
        port: after.port.clone(),
        vectors: vectors.collect(),
        cqs,
        async_events: after.async_events.clone(),
        counters_per_s: after.counters.iter().filter_map(grown).collect(),
        counters: after.counters.clone(),
        connection_manager: after.connection_manager.clone(),
    }
}
