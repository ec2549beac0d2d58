//! Set-up of a function of the Intel E810 that no other driver has set up. The RDMA engine needs
//! reset, AdminQ, package, scheduler and link before it answers.
//!
//! * [`reset`]: resets, and waiting until they are done;
//! * [`AdminQ`]: the command queue and the event queue, [`op`] their commands,
//!   [`event`] their events;
//! * [`package`]: the DDP package, checked before anything is sent;
//! * [`tree`]: the transmit scheduler down to the RDMA queue sets;
//! * [`link`], [`oicr`]: the port's link, and the causes that are not events;
//! * [`code`]: names of error codes, [`limits`]: sizes and time limits.
//!
//! ```
//! use e810_adminq::op::{ClearPxe, ListCaps, Owner, ReadMac};
//! use e810_adminq::{AdminQ, Error, Result, reset};
//! use e810_hal::Platform;
//! use e810_types::MacAddr;
//!
//! fn identify<P: Platform>(platform: P) -> Result<MacAddr> {
//!     reset::reset_function(&platform, false)?;
//!     let mut queue = AdminQ::start(platform)?;
//!     let found = ask(&mut queue);
//!     queue.shutdown()?;
//!     found
//! }
//!
//! fn ask<P: Platform>(queue: &mut AdminQ<P>) -> Result<MacAddr> {
//!     queue.execute(&ClearPxe)?;
//!     let caps = queue.execute(&ListCaps(Owner::Function))?;
//!     if !caps.rdma {
//!         return Err(Error::NoRdma);
//!     }
//!     queue.execute(&ReadMac)
//! }
//! ```
//!
//! Memory that the firmware may still use is never freed: the memory of a command that timed out
//! is leaked, and this is logged.

#![warn(missing_docs)]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod answer;
mod bytes;
pub mod code;
pub mod descriptor;
mod errno;
mod error;
pub mod event;
pub mod limits;
pub mod link;
pub mod lock;
pub mod oicr;
pub mod op;
mod opcode;
pub mod package;
mod queue;
pub mod reset;
pub mod tree;

pub use answer::Answer;
pub use error::{Error, Result};
pub use event::{Event, EventKind};
pub use opcode::{Opcode, WhenBusy};
pub use queue::{AdminQ, Counters, DMA_BYTES};

pub use e810_hal::bus::VsiId;
