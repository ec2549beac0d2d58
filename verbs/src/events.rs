//! Events on their way to the program: what a control plane reports, and about which object.
//!
//! A control plane names objects by the [`Token`]s that came with them. So an event never reaches
//! another object that has got the same number since.

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
    /// A request of the peer was invalid.
    RequestError,
    /// A request of the peer was not allowed.
    AccessError,
    /// Its send queue is drained, in SQD.
    SqDrained,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ControlEvent {
    /// A completion queue for which an event was requested has something to poll.
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
    /// Reports an event. A completion queue or a queue pair cannot be destroyed during the call
    /// about it.
    fn notify(&self, event: ControlEvent);
}
