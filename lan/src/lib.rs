//! LAN queues of the Intel E810: one transmit and one receive queue of a function, for plain
//! Ethernet frames without offloads.
//!
//! A program holds a [`LanQueues`]: [`transmit`](LanQueues::transmit) copies a frame out,
//! [`receive`](LanQueues::receive) copies one in. Neither waits, locks nor allocates. It is made
//! in this order (lan-path 1.1):
//!
//! 1. [`TxMemory`] and [`RxMemory`]: rings and buffers that the device reaches.
//! 2. The transmit queue is added by an AdminQ command, which is not part of this
//!    crate, with [`TxMemory::ring`] and its entries; then [`TxRing::start`].
//! 3. [`RxRing::enable`] programs the receive queue and switches it on.
//!
//! It is undone in this order (lan-path 1.3): [`RxRing::unbind`], [`TxRing::unbind`], the AdminQ
//! command that disables the transmit queue, [`TxRing::stop`]; [`RxRing::disable`]. Memory comes
//! back only from a queue that is off.
//!
//! ```
//! use e810_lan::{LanInit, RxQueueContext};
//! use e810_hal::Iova;
//!
//! let init = LanInit::default();
//! assert_eq!((init.max_frame(), init.mtu), (1522, 1500));
//! let words = RxQueueContext {
//!     ring: Iova(0x1000),
//!     entries: 64,
//!     buffer: 2048,
//!     max_frame: 1526,
//! }
//! .encode()?;
//! assert_eq!(words[1], 0x1000 >> 7);
//! # Ok::<(), e810_lan::Error>(())
//! ```
//!
//! The device is not trusted: any bytes in a ring give a frame, a counted drop or
//! nothing, and one call looks at a bounded number of descriptors.

#![warn(missing_docs)]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod copy;
mod errno;
mod error;
mod init;
mod interrupt;
mod queues;
mod rx;
mod tx;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use error::{Error, Result, Ring};
pub use init::{LanInit, MAX_MTU, MIN_MTU};
pub use interrupt::Interrupt;
pub use queues::LanQueues;
pub use rx::{NotEnabled, RX_BUFFER, RxCounts, RxLeft, RxMemory, RxQueueContext, RxRing};
pub use tx::{MIN_FRAME, STALLED_AFTER, TxCounts, TxMemory, TxRing};
