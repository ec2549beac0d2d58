//! Completion and asynchronous event queues of the Intel E810 RDMA engine.
//!
//! [`Ceq`] tells which completion queue has something to poll, [`Aeq`] tells what went wrong;
//! [`VectorMap`] tells which interrupt vector serves which queue, and [`irq`] programs it.
//! Nothing here waits, locks or posts a command, so all of it may run in an interrupt handler.
//!
//! ```
//! use core::sync::atomic::AtomicU64;
//! use e810_ceq::{Ceq, CeqEntries, CeqStep, CqRef};
//!
//! // Two entries of a CEQ of four; the device has written one.
//! let memory = [const { AtomicU64::new(0) }; 4];
//! let cq = CqRef::new(7, 1);
//! memory[0].store((1 << 63 | cq.context()).to_le(), core::sync::atomic::Ordering::Relaxed);
//!
//! let mut ceq = Ceq::new(&memory[..], CeqEntries::new(4)?, 64)?;
//! assert_eq!(ceq.poll(), CeqStep::Event(cq));
//! assert_eq!(ceq.poll(), CeqStep::Empty);
//! # Ok::<(), e810_ceq::Error>(())
//! ```
//!
//! The device is not trusted: any bytes in a queue give an event, a counted
//! skip, or nothing, and one call handles a bounded number of entries.

#![warn(missing_docs)]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod ae;
pub mod aeq;
pub mod aeqe;
pub mod ceq;
pub mod ceqe;
pub mod dim;
mod errno;
pub mod error;
pub mod event;
pub mod irq;
pub mod limits;
pub mod vectors;

pub use ae::{AeCode, AeInfo};
pub use aeq::{Aeq, AeqCounts, AeqDrain, AeqStep};
pub use aeqe::Aeqe;
pub use ceq::{Ceq, CeqCounts, CeqDrain, CeqStep, Delivery};
pub use ceqe::CqRef;
pub use error::{Error, Result};
pub use event::{AsyncEvent, EventLog};
pub use irq::{Itr, Timer};
pub use limits::{AeqEntries, CeqEntries};
pub use vectors::VectorMap;
