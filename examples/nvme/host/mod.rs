//! A host, which reads blocks of a target's namespace.
//!
//! 1. A connection for the admin queue, with [`Queue::request`] as private data, and
//!    [`Queue::accepted`] with that of the answer.
//! 2. [`Admin::connect`], which connects the queue to a controller and enables it;
//!    [`Admin::identify`], [`Admin::namespace`].
//! 3. A connection for the I/O queue, in the same way; [`Queue::connect`], [`read`].
//! 4. [`Admin::shut_down`]; then the connections end.
//!
//! [`Link`] is the connection of a queue: it waits, in a thread or without one. [`Responses`] posts
//! on its queue pair. The target moves data by RDMA to [`Memory`], and reads there. Whatever it
//! answers, there is an error and no panic.

mod admin;
mod io;
mod queue;
mod responses;
#[cfg(test)]
mod tests;

use e810::{Mr, Platform, Refused as NotPosted, SharedBytes, WcStatus};
use e810_hal::bytes::OutOfRange;

use super::capsule::{Command, HostMemory, RESPONSE, Refused};

pub use admin::{Admin, Controller, Namespace};
pub use io::{Blocks, read};
pub use queue::{DEPTH, Host, Queue};
pub use responses::Responses;

/// What can be wrong with a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Wrong {
    #[error("the private data of the target's answer is not of NVMe/RDMA")]
    Reply,
    #[error("the target has room for {0} commands only")]
    Room(u16),
    #[error("a request was refused: {0}")]
    Post(#[from] NotPosted),
    #[error("a request completed with {0}")]
    Completion(WcStatus),
    #[error(transparent)]
    Range(#[from] OutOfRange),
    #[error("a response of {0} bytes, not {RESPONSE}")]
    Length(u32),
    #[error("the target invalidates key {0:#x}, which it was not asked for")]
    Invalidated(u32),
    #[error("a response to command {0}, which is not under way")]
    Unasked(u16),
    #[error("command {0} is sent while it is under way")]
    Twice(u16),
    #[error("{0}: {1}")]
    Refused(&'static str, Refused),
    #[error("the target wants authentication")]
    Authentication,
    #[error("the controller has failed")]
    Failed,
    #[error("the controller: {0} not in time")]
    Late(&'static str),
    #[error("controller {0} was connected, and says that it is {1}")]
    OtherController(u16, u16),
    #[error("the controller takes no pages of 4096 bytes")]
    Pages,
    #[error("the controller takes no keyed SGLs ({0:#x})")]
    Sgls(u32),
    #[error("blocks of 2^{0} bytes")]
    Blocks(u8),
    #[error("blocks with {0} bytes of metadata")]
    Metadata(u16),
    #[error("blocks outside of the namespace, which has {0}")]
    Outside(u64),
    #[error("{0} bytes of memory are too few for a READ")]
    Small(usize),
}

/// What has happened on a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// The command with this id was sent.
    Sent(u16),
    Response {
        bytes: [u8; RESPONSE],
        length: u32,
        invalidated: Option<u32>,
    },
}

/// The connection of a queue. Its waits have a limit.
pub trait Link {
    type Error: From<Wrong>;

    /// SENDs a command. [`Happened::Sent`] follows.
    ///
    /// # Errors
    /// It is not possible.
    fn send(&mut self, id: u16, command: &Command) -> Result<(), Self::Error>;

    /// Waits for what happens next.
    ///
    /// # Errors
    /// Nothing has happened, or the connection has ended.
    fn next(&mut self) -> Result<Happened, Self::Error>;

    /// Waits for some milliseconds.
    ///
    /// # Errors
    /// The connection has ended.
    fn pause(&mut self, ms: u64) -> Result<(), Self::Error>;
}

/// Memory that the target may read and write.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    bytes: SharedBytes,
    address: u64,
    key: u32,
}

impl Memory {
    /// `bytes` are those of the region, which has the rights of a peer to read and to write.
    pub fn new<P: Platform>(bytes: SharedBytes, region: &Mr<P>) -> Self {
        Self { bytes, address: region.address(), key: region.rkey() }
    }

    /// A part of it.
    ///
    /// # Errors
    /// [`Wrong::Range`].
    pub fn part(&self, at: usize, bytes: usize) -> Result<Self, Wrong> {
        let window = self.bytes.window(at, bytes)?;
        Ok(Self { bytes: window, address: self.address + at as u64, ..*self })
    }

    /// What a command says of its first bytes.
    fn keyed(&self, length: u32) -> HostMemory {
        HostMemory { address: self.address, length, key: self.key }
    }

    fn field<const N: usize>(&self, at: usize) -> Result<[u8; N], Wrong> {
        let mut field = [0; N];
        self.bytes.read(at, &mut field)?;
        Ok(field)
    }
}
