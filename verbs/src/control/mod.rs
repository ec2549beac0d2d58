//! Commands to the control path of a device, and where they go.
//!
//! Verbs know nothing of the driver's `Control`: they send a [`Command`] and get an [`Answer`],
//! both plain data. Today's [`ControlPlane`] is in the same process ([`in_process`]); one that
//! asks another process is another implementation of the trait.

use std::fmt::Debug;
use std::sync::Arc;

use e810::{DeviceAttr, GidEntry, PortAttr};

use crate::async_events::EventQueue;

pub mod in_process;

/// What is asked of the control path.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Command {
    /// What the device offers.
    QueryDevice,
    /// What a port says of itself.
    QueryPort(u8),
    /// An entry of the GID table.
    QueryGid(u8),
    /// An entry of a port's P_Key table.
    QueryPkey {
        /// The port, from 1.
        port: u8,
        /// The index.
        index: u16,
    },
}

/// What it answers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// Of [`Command::QueryDevice`].
    Device(DeviceAttr),
    /// Of [`Command::QueryPort`].
    Port(PortAttr),
    /// Of [`Command::QueryGid`]: `None` where there is none.
    Gid(Option<GidEntry>),
    /// Of [`Command::QueryPkey`].
    Pkey(u16),
}

/// Why a command was not carried out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// The driver's own error.
    #[error(transparent)]
    Driver(#[from] e810::Error),
    /// The device is gone, or was never there.
    #[error("{0}")]
    Gone(String),
    /// An answer to another command.
    #[error("the control path answered {0:?}; please report it")]
    Unexpected(Box<Answer>),
}

/// Where commands go.
pub trait ControlPlane: Send + Sync + Debug {
    /// Carries a command out; it may take as long as the device does (bounded by the driver).
    ///
    /// # Errors
    /// [`Refused`].
    fn call(&self, command: &Command) -> Result<Answer, Refused>;

    /// Has events of the device and its port put into `queue`, too, until that is dropped.
    fn listen(&self, queue: &Arc<EventQueue>);
}

impl dyn ControlPlane + '_ {
    /// What the device offers.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn query_device(&self) -> Result<DeviceAttr, Refused> {
        match self.call(&Command::QueryDevice)? {
            Answer::Device(attr) => Ok(attr),
            other => Err(Refused::Unexpected(Box::new(other))),
        }
    }

    /// What a port, from 1, says of itself.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn query_port(&self, port: u8) -> Result<PortAttr, Refused> {
        match self.call(&Command::QueryPort(port))? {
            Answer::Port(attr) => Ok(attr),
            other => Err(Refused::Unexpected(Box::new(other))),
        }
    }

    /// An entry of the GID table, if there is one.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn query_gid(&self, index: u8) -> Result<Option<GidEntry>, Refused> {
        match self.call(&Command::QueryGid(index))? {
            Answer::Gid(entry) => Ok(entry),
            other => Err(Refused::Unexpected(Box::new(other))),
        }
    }

    /// An entry of a port's P_Key table.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn query_pkey(&self, port: u8, index: u16) -> Result<u16, Refused> {
        match self.call(&Command::QueryPkey { port, index })? {
            Answer::Pkey(key) => Ok(key),
            other => Err(Refused::Unexpected(Box::new(other))),
        }
    }
}
