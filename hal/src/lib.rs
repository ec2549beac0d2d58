//! Registers, platform traits and DMA words of the Intel E810 RDMA engine.
//!
//! Everything above this crate is written against one generic parameter, `P:` [`Platform`]:
//! register access ([`Bus`]), memory that the device reaches ([`DmaAlloc`], [`DmaMap`]), memory
//! that it does not ([`HostMem`]), time ([`Clock`]), ordering ([`Barrier`]) and interrupt vectors
//! ([`InterruptVectors`]). A real function, a simulator and a unikernel differ only in `P`.
//!
//! ```
//! use e810_hal::ring::Producer;
//!
//! // Ring arithmetic is plain values: a 4-entry ring whose valid bit starts at 1.
//! let mut ring = Producer::new(4).unwrap();
//! let slot = ring.claim(1).unwrap();
//! assert_eq!((slot.index, slot.polarity), (0, true));
//! ```

#![warn(missing_docs)]
#![no_std]

#[cfg(not(target_has_atomic = "64"))]
compile_error!(
    "the valid bit of every queue entry sits in a 64-bit word: 64-bit atomics are required"
);

#[cfg(any(test, feature = "testing"))]
extern crate std;

#[doc(hidden)]
#[cfg(feature = "log")]
pub use log as __log;

pub mod bar;
pub mod barrier;
pub mod bus;
pub mod bytes;
pub mod clock;
pub mod dma;
pub mod errno;
mod forward;
pub mod host;
pub mod le;
#[macro_use]
mod logging;
pub mod map;
pub mod msix;
pub mod pci_ids;
pub mod platform;
pub mod reg;
pub mod regs;
pub mod ring;
#[cfg(feature = "testing")]
pub mod testing;
pub mod vectors;
pub mod words;

pub use bar::{Bar0, DoorbellPage};
pub use barrier::Barrier;
pub use bus::{Bus, CeqId, RegOffset, Vector};
pub use bytes::SharedBytes;
pub use clock::{Clock, Ns, WaitError, poll_until};
pub use dma::{DmaAlloc, DmaBuf, DmaError, DmaLayout, Iova, RawDma};
pub use host::{
    HostBox, HostBuf, HostList, HostMem, HostShared, HostUninit, HostView, NoHostMemory,
};
pub use map::{Access, DmaMap, DmaSegment, Mapping, ProgramBytes};
pub use msix::{MsixError, MsixLayout, MsixTable};
pub use platform::Platform;
pub use vectors::InterruptVectors;
pub use words::{DmaWord, DmaWords};
