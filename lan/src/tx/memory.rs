//! Memory of a transmit queue: its ring, and a buffer for each descriptor.

use e810_hal::{DmaBuf, DmaLayout, DmaWords, Iova, Platform};

use crate::error::Result;
use crate::init::LanInit;

/// Words of a descriptor (lan-path 4).
pub(super) const WORDS: usize = 2;
/// Rings are aligned to 128 bytes (lan-path 1.4).
const RING_ALIGN: usize = 128;
/// Buffers begin at multiples of this: a cache line.
const BUFFER_ALIGN: usize = 64;

/// Ring and buffers of a transmit queue that the device does not use.
#[derive(Debug)]
#[must_use = "dropping it leaks the memory: release()"]
pub struct TxMemory<P: Platform> {
    pub(super) ring: DmaBuf<P>,
    pub(super) buffers: DmaBuf<P>,
    entries: u16,
    max_frame: usize,
}

impl<P: Platform> TxMemory<P> {
    /// Allocates ring and buffers.
    ///
    /// # Errors
    /// Settings out of range; no memory.
    pub fn new(platform: &P, init: &LanInit) -> Result<Self> {
        init.check()?;
        let entries = usize::from(init.tx_entries);
        let layout = DmaLayout::new(entries.saturating_mul(WORDS * 8), RING_ALIGN);
        let ring = DmaBuf::new(platform.clone(), layout)?;
        let bytes = entries.saturating_mul(buffer_bytes(init.max_frame()));
        let layout = DmaLayout::new(bytes, BUFFER_ALIGN);
        let buffers = match DmaBuf::new(platform.clone(), layout) {
            Ok(buffers) => buffers,
            Err(error) => {
                ring.release();
                return Err(error.into());
            }
        };
        Ok(Self {
            ring,
            buffers,
            entries: init.tx_entries,
            max_frame: init.max_frame(),
        })
    }

    /// Where the ring is: what the queue's context names.
    pub fn ring(&self) -> Iova {
        self.ring.iova()
    }

    /// Bytes that are allocated.
    pub fn bytes(&self) -> usize {
        self.ring.bytes().saturating_add(self.buffers.bytes())
    }

    /// Descriptors of the ring.
    #[must_use]
    pub const fn entries(&self) -> u16 {
        self.entries
    }

    /// The longest frame that a buffer takes.
    pub(super) const fn max_frame(&self) -> usize {
        self.max_frame
    }

    /// The buffer of descriptor `index`, and its address for the device.
    pub(super) fn buffer(&self, index: u16) -> Option<(&[<DmaBuf<P> as DmaWords>::Word], Iova)> {
        let bytes = buffer_bytes(self.max_frame);
        let start = usize::from(index).checked_mul(bytes)?;
        let words = self.buffers.words().get(start / 8..)?.get(..bytes / 8)?;
        Some((words, self.buffers.iova().offset(start as u64)?))
    }

    /// Clears the ring: a queue that starts again finds nothing old.
    pub(super) fn clear(&self) {
        self.ring
            .fill(0, usize::from(self.entries).saturating_mul(WORDS), 0);
    }

    /// Frees the memory. The device must have released it: the queue was not added, is disabled,
    /// or the function was reset.
    pub fn release(self) {
        self.ring.release();
        self.buffers.release();
    }
}

/// Bytes of a buffer.
const fn buffer_bytes(max_frame: usize) -> usize {
    match max_frame.checked_next_multiple_of(BUFFER_ALIGN) {
        Some(bytes) => bytes,
        // An MTU has 16 bits.
        None => max_frame,
    }
}
