//! Memory the caller already has, made visible to the device.
//!
//! A mapping yields runs of (IOVA, length): VFIO gives one, a unikernel
//! perhaps one a page, the simulator what its seed says. How a memory region
//! is described to the device (no list, one level, two levels of PBLEs) follows
//! from the runs.

use crate::bytes::SharedBytes;
use crate::dma::{DmaError, Iova};

/// What the device may do with mapped memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Access {
    /// The device only reads.
    Read,
    /// The device reads and writes.
    ReadWrite,
}

/// A piece of mapped memory that is contiguous for the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Run {
    /// Device address of the first byte.
    pub iova: Iova,
    /// Bytes, at least 1.
    pub bytes: u64,
}

/// A live mapping: a platform's handle and its number of runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Mapping {
    /// The platform's own handle.
    pub id: u64,
    /// Number of runs, at least 1.
    pub runs: u32,
}

/// Maps memory the caller has.
///
/// # Implementation safety
/// From `dma_map` to `dma_unmap` the runs, in order, cover exactly the bytes
/// of the memory, and the device reaches nothing else through them. After
/// `dma_unmap` the device reaches none of it.
pub unsafe trait DmaMap {
    /// Makes `memory` visible to the device.
    ///
    /// Run boundaries inside the memory lie on multiples of 4 KiB of its
    /// virtual address, and offsets within a 4 KiB page are the same on both
    /// sides.
    ///
    /// # Errors
    /// [`DmaError::BadRange`], [`DmaError::Refused`], [`DmaError::OutOfMemory`].
    fn dma_map(&self, memory: SharedBytes, access: Access) -> Result<Mapping, DmaError>;

    /// Run `index` of a live mapping; `None` from `runs` on.
    fn dma_run(&self, mapping: &Mapping, index: u32) -> Option<Run>;

    /// Takes the memory away from the device. A handle that is not live is ignored.
    fn dma_unmap(&self, mapping: Mapping);
}
