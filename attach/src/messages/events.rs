//! Events on their way to the program: what a control plane reports, and about which object.
//!
//! A control plane names objects by the [`Token`]s that came with them. So an event never reaches
//! another object that has got the same number since.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, Weak};

use serde::{Deserialize, Serialize};

use super::Token;
use crate::lock;

/// An event that concerns the device or its port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DeviceEvent {
    /// The link of the port came up.
    PortActive,
    /// The link of the port went down.
    PortError,
    /// An entry of the GID table changed.
    GidChange,
    /// The function is gone, or needs a reset.
    DeviceFatal,
}

/// What happened to a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
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

    /// Reports what has happened to a connection.
    fn connection(&self, _told: &e810_connect::Told) {}
}

/// Those in a program who hear of its events, until they are dropped.
#[derive(Debug, Default)]
pub struct Listeners(Mutex<Vec<Weak<dyn EventSink>>>);

impl Listeners {
    /// One more.
    pub fn add(&self, sink: &Arc<dyn EventSink>) {
        let mut all = lock(&self.0);
        // Dropped listeners hold memory, and there may be no event for long.
        all.retain(|sink| sink.strong_count() > 0);
        all.push(Arc::downgrade(sink));
    }

    /// Tells all of them.
    pub fn notify(&self, event: ControlEvent) {
        self.each(|sink| sink.notify(event));
    }

    /// Tells all of them of a connection.
    pub fn connection(&self, told: &e810_connect::Told) {
        self.each(|sink| sink.connection(told));
    }

    fn each(&self, tell: impl Fn(&dyn EventSink)) {
        lock(&self.0).retain(|sink| match sink.upgrade() {
            Some(sink) => {
                tell(&*sink);
                true
            }
            None => false,
        });
    }
}
