//! Memory of completion queues, which a program may allocate itself.

use e810_datapath::sizing::{CqSize, SHADOW_BYTES};
use e810_hal::{DmaBuf, DmaLayout, Iova, Platform};

use crate::error::{Error, Result};

/// Alignment of the rings of completion queues and queue pairs (control-path 4.8, 4.9).
pub(crate) const RING_ALIGN: usize = 256;
/// Bytes of an entry of a completion queue (data-path 4.1).
const CQE_BYTES: u64 = 32;
/// Alignment of a completion queue's shadow area (control-path 4.8).
const SHADOW_ALIGN: usize = 64;

/// The ring of a completion queue, zeroed.
#[derive(Debug)]
#[must_use = "it is freed with `release`"]
pub struct CqRingMemory<P: Platform> {
    pub(crate) ring: DmaBuf<P>,
    pub(crate) entries: u32,
}

/// Memory of a completion queue, zeroed: its ring and its shadow area.
#[derive(Debug)]
#[must_use = "it is freed with `release`"]
pub struct CqMemory<P: Platform> {
    pub(crate) ring: CqRingMemory<P>,
    pub(crate) shadow: DmaBuf<P>,
}

/// Where the ring of a completion queue is, for the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CqRingPlace {
    /// Entries that there is room for: twice the completions that were asked for, because
    /// immediate data takes an entry of its own.
    pub entries: u32,
    /// 256-byte aligned.
    pub ring: Iova,
}

/// Where the memory of a completion queue is, for the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CqPlace {
    /// Of 32 bytes an entry.
    pub ring: CqRingPlace,
    /// 64 bytes, 64-byte aligned.
    pub shadow: Iova,
}

impl CqRingPlace {
    /// Where the device writes: the first address, and how many bytes.
    #[must_use]
    pub const fn span(&self) -> (Iova, u64) {
        (self.ring, self.entries as u64 * CQE_BYTES)
    }

    /// A program may say any size.
    ///
    /// # Errors
    /// No number of completions has a ring of this size.
    pub(crate) fn check(&self) -> Result<()> {
        let cqe = (self.entries / 2).saturating_sub(1);
        let size = CqSize::new(cqe).map_err(e810_datapath::Error::from)?;
        match size.entries == self.entries {
            true => Ok(()),
            false => Err(Error::Invalid {
                what: "the ring of a completion queue has an even number of entries",
            }),
        }
    }
}

impl CqPlace {
    /// Where the device reads and writes: the first address of each part, and how many bytes.
    #[must_use]
    pub const fn spans(&self) -> [(Iova, u64); 2] {
        [self.ring.span(), (self.shadow, SHADOW_BYTES as u64)]
    }
}

impl<P: Platform> CqRingMemory<P> {
    pub(crate) fn new(platform: &P, cqe: u32) -> Result<Self> {
        let size = CqSize::new(cqe).map_err(e810_datapath::Error::from)?;
        let layout = DmaLayout::new(size.bytes() as usize, RING_ALIGN);
        Ok(Self {
            ring: DmaBuf::new(platform.clone(), layout)?,
            entries: size.entries,
        })
    }

    /// What the device is told.
    #[must_use]
    pub fn place(&self) -> CqRingPlace {
        CqRingPlace {
            entries: self.entries,
            ring: self.ring.iova(),
        }
    }

    /// Frees it. The device must not be using it.
    pub fn release(self) {
        self.ring.release();
    }

    pub(crate) fn into_ring(self) -> (DmaBuf<P>, u32) {
        (self.ring, self.entries)
    }
}

impl<P: Platform> CqMemory<P> {
    pub(crate) fn new(platform: &P, cqe: u32) -> Result<Self> {
        let ring = CqRingMemory::new(platform, cqe)?;
        let shadow = DmaLayout::new(SHADOW_BYTES as usize, SHADOW_ALIGN);
        match DmaBuf::new(platform.clone(), shadow) {
            Ok(shadow) => Ok(Self { ring, shadow }),
            Err(error) => {
                ring.release();
                Err(error.into())
            }
        }
    }

    /// What the device is told.
    #[must_use]
    pub fn place(&self) -> CqPlace {
        CqPlace {
            ring: self.ring.place(),
            shadow: self.shadow.iova(),
        }
    }

    /// Frees it. The device must not be using it.
    pub fn release(self) {
        self.ring.release();
        self.shadow.release();
    }
}
