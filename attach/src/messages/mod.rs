//! What an owner and a program say to each other.

use e810::{CqKey, ProgramLimits, QpChange};
use serde::{Deserialize, Serialize};

mod bytes;
mod command;
mod events;
mod hello;
mod refused;

pub use bytes::{MOST, Malformed, VERSION, decode, encode};
pub use command::*;
pub use events::{ControlEvent, DeviceEvent, EventSink, Listeners, QpEvent};
pub use hello::Hello;
pub use refused::{Kind, Limit, Refused};

/// What a program asks.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Its answer has the same; 0: it wants none.
    pub number: u64,
    pub command: Command,
}

/// What a program is told.
#[derive(Debug, Serialize, Deserialize)]
pub enum Told {
    /// First of all: how much room the slots of its queues may need.
    Welcome(ProgramLimits),
    /// Instead of a welcome: the program is not attached.
    Refused(Refused),
    Answer(u64, Result<Answer, Refused>),
    Event(ControlEvent),
    /// Something about a queue pair has changed.
    Qp(QpChange),
    /// A completion queue that asked for an event has something to poll.
    CqEvent(CqKey),
    /// A completion queue has failed.
    CqFailed(CqKey),
}
