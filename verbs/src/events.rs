//! Events on their way to the program: what a control plane tells, and which object it is about.
//!
//! A control plane names objects by the [`Token`]s that it was given with them, so that an event
//! never reaches another object which has got the same number since.

use core::fmt::Debug;

use serde::{Deserialize, Serialize};

use crate::async_events::DeviceEvent;
use crate::control::Token;

/// What happened to a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum QpEvent {
    /// It failed.
    Fatal,
    /// A request of the peer was none.
    RequestError,
    /// A request of the peer was not allowed.
    AccessError,
    /// Its send queue is drained, in SQD.
    SqDrained,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ControlEvent {
    /// A completion queue that was asked for an event has something to poll.
    Completion(Token),
    /// A completion queue failed: it overflowed.
    CqError(Token),
    /// Something happened to a queue pair.
    Qp(Token, QpEvent),
    /// Something happened to the device or its port.
    Device(DeviceEvent),
}

/// Receives events. It neither waits nor gives commands.
pub trait EventSink: Debug + Send + Sync {
    /// Something happened. For a completion queue or a queue pair this is called while it cannot
    /// be destroyed.
    fn notify(&self, event: ControlEvent);
}
