//! A snapshot: states, and counts since the start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::connections::ConnectionsSnapshot;

/// A process and its functions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// What the process does: the name of its command.
    pub command: String,
    pub pid: u32,
    /// Time of the snapshot, in ns since the registry was created.
    pub at_ns: u64,
    pub functions: Vec<FunctionSnapshot>,
    /// Functions that did not answer in time: they are starting, or their loop is blocked.
    pub silent: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FunctionSnapshot {
    /// Its name in the process.
    pub name: String,
    /// How it is reached: `sim`, `vfio-user:PATH` or `vfio:BDF`.
    pub device: String,
    pub port: PortSnapshot,
    /// Its interrupt vectors.
    pub vectors: Vec<VectorSnapshot>,
    /// Its completion queues.
    pub cqs: Vec<CqSnapshot>,
    /// Its asynchronous events.
    pub async_events: AsyncEventsSnapshot,
    /// Its counters, by the names of existing drivers; empty if they could not be read.
    pub counters: BTreeMap<String, u64>,
    /// Its connection manager, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_manager: Option<ConnectionsSnapshot>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortSnapshot {
    /// `active` or `down`.
    pub state: String,
    /// Speed of the link in Mbit/s; 0 when it is not known.
    pub link_mbps: u32,
    /// Ethernet address.
    pub mac: String,
}

/// An interrupt vector.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VectorSnapshot {
    pub vector: u32,
    /// Asynchronous events come here.
    pub asynchronous: bool,
    /// The completion vector whose events come here.
    pub completion_vector: Option<u16>,
    /// Interrupts taken; 0 if the program polls.
    pub interrupts: u64,
    /// The completion event queue.
    pub ceq: Option<DepthSnapshot>,
    /// What delays its interrupts.
    pub timing: Option<TimingSnapshot>,
}

/// How full a queue is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DepthSnapshot {
    /// Number of entries.
    pub entries: u32,
    /// Number of waiting entries.
    pub waiting: u32,
}

/// What delays the interrupts of a vector, according to its registers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TimingSnapshot {
    /// The timer of the completions: `ITR0` to `ITR2`, or `none`.
    pub timer: String,
    /// Its interval in µs; 0: none.
    pub interval_us: u32,
    /// Minimum time between two interrupts in µs; 0: no limit.
    pub limit_us: u32,
}

/// A completion queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CqSnapshot {
    pub number: u32,
    /// The completion vector of its events.
    pub completion_vector: u16,
    /// How full it is.
    pub depth: DepthSnapshot,
    /// It overflowed.
    pub failed: bool,
    /// Completions polled.
    pub completions: u64,
    pub events: u64,
    /// Its moderation: `off`, `fixed`, `adaptive` or `dim`.
    pub moderation: String,
    /// How long its events may wait, in µs.
    pub wait_us: u32,
    /// The profile that an adaptive moderation has chosen.
    pub profile: Option<ProfileSnapshot>,
}

/// A profile of adaptive moderation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProfileSnapshot {
    /// Its index; a higher one waits longer.
    pub index: u8,
    /// How many there are.
    pub of: u8,
}

/// Asynchronous events.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AsyncEventsSnapshot {
    /// Number of events.
    pub total: u64,
    /// The last events, oldest first.
    pub last: Vec<AsyncEventSnapshot>,
}

/// An asynchronous event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AsyncEventSnapshot {
    /// How long ago it was, in ns.
    pub ago_ns: u64,
    pub name: String,
    /// What it happened to.
    pub object: String,
    /// Why.
    pub cause: String,
    /// What to check or change.
    pub remedy: String,
    /// Only a reset of the function helps.
    pub needs_reset: bool,
}
