//! Mapping memory that the caller already has for the device.
//!
//! A mapping yields segments of (IOVA, length): VFIO gives one, a unikernel perhaps one for each
//! page, the simulator as many as its seed says. The segments decide how a memory region is
//! described to the device (no list, one level, two levels of PBLEs).

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
pub struct DmaSegment {
    /// Device address of the first byte.
    pub iova: Iova,
    /// Bytes, at least 1.
    pub bytes: u64,
}

/// A live mapping: a platform's handle and its number of segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Mapping {
    /// The platform's own handle.
    pub id: u64,
    /// Number of segments, at least 1.
    pub segments: u32,
}

/// Memory of another process: only a number and a range of addresses there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ProgramBytes {
    /// The platform's number of the process.
    pub program: u64,
    /// Address of the first byte in that process.
    pub address: u64,
    /// Bytes.
    pub len: usize,
}

/// Maps memory the caller has.
///
/// # Implementation safety
/// From `dma_map` to `dma_unmap` the segments, in order, cover exactly the bytes of the memory.
/// Through them the device reaches nothing else, except the rest of the IOMMU's pages (at least 4
/// KiB) that the memory begins and ends in: payload that begins and ends with a page has no
/// neighbours there. If there is no IOMMU, only the device itself keeps to the segments. After
/// `dma_unmap` the device reaches none of it. If there is no IOMMU, or the IOMMU is another
/// process (vfio-user), this is up to the device, which the caller has told first, or reset. A
/// clone of the implementor is the same platform: a mapping of one is live in all.
pub unsafe trait DmaMap {
    /// Makes `memory` visible to the device. It is lent until `dma_unmap`, as
    /// [`SharedBytes::new`] promises.
    ///
    /// Segment boundaries inside the memory lie on multiples of 4 KiB of its
    /// virtual address, and offsets within a 4 KiB page are the same on both
    /// sides.
    ///
    /// Each call makes a mapping of its own, even of memory that is mapped already. Platforms
    /// must not share mappings by address: a mapping outlives the memory that was at its address,
    /// and later memory at that address is different memory.
    ///
    /// # Errors
    /// [`DmaError`], with the reason if the platform knows it.
    fn dma_map(&self, memory: SharedBytes, access: Access) -> Result<Mapping, DmaError>;

    /// Makes memory of another process visible to the device, if the platform can: otherwise as
    /// [`dma_map`](Self::dma_map). Memory that the process no longer has is not reached.
    ///
    /// # Errors
    /// [`DmaError::NotAccessible`] where it cannot.
    fn dma_map_program(&self, memory: ProgramBytes, access: Access) -> Result<Mapping, DmaError> {
        Err(DmaError::NotAccessible {
            address: memory.address,
            bytes: memory.len,
            access,
        })
    }

    /// Segment `index` of a live mapping; `None` from [`Mapping::segments`] on.
    fn dma_segment(&self, mapping: &Mapping, index: u32) -> Option<DmaSegment>;

    /// Takes the memory away from the device, which was told not to use it any more. A handle
    /// that is not live is ignored.
    fn dma_unmap(&self, mapping: Mapping);
}
