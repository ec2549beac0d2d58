//! Layout of the DMA memory of the CQP and of the CCQ.

use e810_hal::Iova;

use crate::error::{Error, Result};
use crate::limits::{CQE_BYTES, HOST_CONTEXT_BYTES, QUEUE_ALIGN, SD_SLOT_BYTES, WQE_BYTES};

/// Where things are in the CQP's one allocation: send queue at 0 (512-aligned),
/// then the SD slots (128-aligned, as WQEs are 64 bytes and at least 4), then
/// the host context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Places {
    entries: u64,
}

impl Places {
    pub(super) const fn new(entries: u32) -> Self {
        Self {
            entries: entries as u64,
        }
    }

    /// Byte offset of SD slot `index`.
    pub(super) const fn slot(self, index: u32) -> u64 {
        let sq = self.entries.wrapping_mul(WQE_BYTES as u64);
        sq.wrapping_add((SD_SLOT_BYTES as u64).wrapping_mul(index as u64))
    }

    /// Byte offset of the host context.
    pub(super) const fn context(self) -> u64 {
        self.slot(self.entries as u32)
    }

    pub(super) const fn bytes(self) -> usize {
        (self.context() as usize).wrapping_add(HOST_CONTEXT_BYTES)
    }
}

/// CCQ entries beyond those of the send queue, as in existing drivers.
const SPARE_ENTRIES: u32 = 2;

/// Alignment of both parts, in bytes.
pub(super) const CCQ_ALIGN: usize = QUEUE_ALIGN as usize;

/// Entries of the CCQ of a send queue with `sq_entries`, and the byte offset of
/// its shadow area, which takes another [`CCQ_ALIGN`] bytes.
pub(super) const fn ccq_places(sq_entries: u32) -> (u32, usize) {
    let entries = sq_entries.saturating_add(SPARE_ENTRIES);
    let ring = (entries as usize).saturating_mul(CQE_BYTES);
    (entries, ring.next_multiple_of(CCQ_ALIGN))
}

/// Bytes of DMA memory of the CCQ of a send queue with `sq_entries`.
const fn ccq_bytes(sq_entries: u32) -> usize {
    ccq_places(sq_entries).1.saturating_add(CCQ_ALIGN)
}

/// The device address `offset` bytes into an allocation.
pub(super) fn offset(base: Iova, offset: u64) -> Result<Iova> {
    base.offset(offset).ok_or(Error::Invalid {
        what: "DMA memory wraps the device's address space",
    })
}

/// Pieces of DMA memory that a CQP of `entries` takes, in bytes: its queue, and
/// the CCQ's.
#[must_use]
pub const fn dma_bytes(entries: u32) -> [usize; 2] {
    [Places::new(entries).bytes(), ccq_bytes(entries)]
}
