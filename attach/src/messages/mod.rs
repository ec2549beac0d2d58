//! What an owner and a program say to each other.

use e810::{CqKey, ProgramLimits, QpChange};
use serde::{Deserialize, Serialize};

mod bytes;
mod command;
mod connecting;
mod events;
mod hello;
mod refused;
mod report;
mod share;

pub use bytes::{MOST, Malformed, VERSION, decode, encode};
pub use command::*;
pub use connecting::CallBytes;
pub use events::{ControlEvent, DeviceEvent, EventSink, Listeners, QpEvent};
pub use hello::Hello;
pub use refused::{Kind, Limit, Refused};
pub use report::{Counts, PAGE, Page, Row};
pub use share::{Held, Resource, Share, Whose};

/// What a program asks.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Its answer has the same; 0: it wants none.
    pub number: u64,
    pub command: Command,
}

/// What a program needs for queues of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// How much room their slots may need.
    pub limits: ProgramLimits,
    /// How the program reaches the function by itself; the device's file comes with the message.
    /// `None`: the owner simulates the function, and the program lends it its memory.
    pub function: Option<Function>,
}

/// A function as a program reaches it that does so by itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Function {
    /// The device, as errors name it.
    pub name: String,
    /// Offset of BAR0 in the device's file.
    pub bar0: u64,
    /// Offset of configuration space there.
    pub config: u64,
    /// First and last I/O address that the program maps its memory at.
    pub addresses: (u64, u64),
    /// Smallest IOMMU page in bytes.
    pub page: u64,
}

/// What a program is told, or somebody who asks about programs.
#[derive(Debug, Serialize, Deserialize)]
pub enum Told {
    /// First of all.
    Welcome(Welcome),
    /// Instead of a welcome: the program is not attached.
    Refused(Refused),
    /// After a [`Welcome`] with a function: the file of its I/O addresses comes with this.
    Container,
    /// The answer to a question about programs.
    Programs(Box<Page>),
    Answer(u64, Result<Answer, Refused>),
    Event(ControlEvent),
    /// Something about a queue pair has changed.
    Qp(QpChange),
    /// A completion queue that asked for an event has something to poll.
    CqEvent(CqKey),
    /// A completion queue has failed.
    CqFailed(CqKey),
    /// What has happened to a connection, or that a peer asks for one.
    Connection(Box<e810_connect::Told>),
}
