//! Commands to the control path of a device, and the interface that carries them out.
//!
//! Verbs do not use the driver's `Control`: they send a [`Command`] and get an [`Answer`]. One
//! [`ControlPlane`] is in the same process ([`in_process`]); a
//! function of another process is reached over a socket; [`over_socket`] does so with one of the
//! same process, for tests.

use std::fmt::Debug;
use std::sync::Arc;

use crate::rings::{DataPathOps, RingMaker};

pub(crate) mod attached;
pub(crate) mod closed;
pub mod in_process;
pub mod over_socket;

pub use e810_attach::messages::*;

/// Carries out commands.
pub trait ControlPlane: Send + Sync + Debug {
    /// Carries a command out; it may take as long as the device does (bounded by the driver).
    fn call(&self, command: Command) -> Result<Answer, Refused>;

    /// Reports events to `sink`, too, until that is dropped.
    fn listen(&self, sink: &Arc<dyn EventSink>);

    /// What makes rings for its objects. It is asked before each object: a child of `fork` must not
    /// begin to make one.
    ///
    /// # Errors
    /// The device is gone, or belongs to another process.
    fn rings(&self) -> Result<Arc<dyn RingMaker>, Refused>;

    /// The functions that post to those rings, and poll them.
    fn data_path(&self) -> &'static DataPathOps;

    /// Whether the function is gone with all that could still use the memory of its objects: they
    /// can be destroyed without it, and the device can be opened again.
    fn is_over(&self) -> bool {
        false
    }
}

impl dyn ControlPlane + '_ {
    /// Gives a command, and returns the one kind of answer that it has.
    ///
    /// # Errors
    /// The refusal.
    pub fn ask<O: Operation>(&self, operation: O) -> Result<O::Answer, Refused> {
        O::answer(self.call(operation.command())?).map_err(Refused::unexpected)
    }
}
