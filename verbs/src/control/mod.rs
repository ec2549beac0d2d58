//! Commands to the control path of a device, and where they go.
//!
//! Verbs know nothing of the driver's `Control`: they send a [`Command`] and get an [`Answer`].
//! Today's [`ControlPlane`] is in the same process ([`in_process`]); one that asks another
//! process is another implementation of the trait. [`over_channel`] is one that passes everything
//! through a channel, for tests.

use std::fmt::Debug;
use std::sync::Arc;

use e810_node::station::Unresolved;

use crate::events::EventSink;
use crate::rings::DataPathOps;

pub(crate) mod ask;
pub(crate) mod closed;
mod command;
pub mod in_process;
pub mod over_channel;

pub use command::{Answer, Command, Handover, Memory, MrChanges, NewQp, Token};

/// Why a command was not carried out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// The driver's own error.
    #[error(transparent)]
    Driver(#[from] e810::Error),
    /// A region could not be changed, and is gone.
    #[error("the memory region is gone: {0}")]
    MrLost(e810::Error),
    /// There is no object of this number (any more).
    #[error("there is no {object} {number}")]
    NoSuch { object: &'static str, number: u32 },
    /// There is no memory for the library's own part of an object.
    #[error("out of memory")]
    NoMemory,
    /// Where packets to an address go is not known.
    #[error(transparent)]
    Unresolved(#[from] Unresolved),
    /// The device is gone, or was never there.
    #[error("{0}")]
    Gone(String),
    /// An answer to another command.
    #[error("the control path answered {0}; please report it")]
    Unexpected(String),
}

impl Refused {
    pub(crate) fn unexpected(answer: &Answer) -> Self {
        Self::Unexpected(format!("{answer:?}"))
    }
}

/// Where commands go.
pub trait ControlPlane: Send + Sync + Debug {
    /// Carries a command out; it may take as long as the device does (bounded by the driver).
    fn call(&self, command: Command) -> Result<Answer, Refused>;

    /// Has events told to `sink`, too, until that is dropped.
    fn listen(&self, sink: &Arc<dyn EventSink>);

    /// The functions that post to the rings that it makes, and poll them.
    fn data_path(&self) -> &'static DataPathOps;
}
