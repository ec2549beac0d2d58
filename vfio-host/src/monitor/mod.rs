//! Live state of functions at work: how often vectors fire, how full the queues are, what
//! moderation does, and what went wrong.
//!
//! A function belongs to one process, so that process has to report it. The progress loop of a
//! device has a [`SnapshotPublisher`]. One load shows whether a snapshot is wanted; otherwise the
//! loop does nothing. A [`MonitorRegistry`] asks all publishers of a process, a [`Service`] answers
//! for it on a socket, and a [`Client`] asks there.
//!
//! A [`Snapshot`] has counts since the start. The differences between two snapshots give rates
//! ([`View`]).

mod client;
mod collect;
mod connections;
mod registry;
mod screen;
mod service;
mod snapshot;
mod view;

pub use client::Client;
pub(crate) use collect::{Counts, collect_snapshot};
pub use connections::{
    ConnectionSnapshot, ConnectionsSnapshot, CountersSnapshot, ListenerSnapshot, MOST,
    ServiceSnapshot, print as print_connections, summary as summary_of_connections,
};
pub use registry::{MonitorRegistry, SnapshotPublisher};
pub use screen::{print, print_within};
pub use service::Service;
pub use snapshot::{
    AsyncEventSnapshot, AsyncEventsSnapshot, CqSnapshot, DepthSnapshot, FunctionSnapshot,
    PortSnapshot, ProfileSnapshot, Snapshot, TimingSnapshot, VectorSnapshot,
};
pub use view::{CqView, FunctionView, VectorView, View};

/// The name of the command whose functions have a connection manager as soon as a program needs one.
pub(crate) const SERVE: &str = "serve";

#[cfg(test)]
mod tests;
