//! Memory of a receive queue: its ring, and a buffer for each descriptor.

use e810_hal::{DmaBuf, DmaLayout, DmaWords, Iova, Platform};

use super::context::RxQueueContext;
use super::descriptor::WORDS;
use crate::error::Result;
use crate::init::LanInit;

/// Bytes of a receive buffer (lan-path 15).
pub const RX_BUFFER: usize = 2048;
/// Rings are aligned to 128 bytes (lan-path 1.4).
const RING_ALIGN: usize = 128;

/// Ring and buffers of a receive queue that the device does not use.
#[derive(Debug)]
#[must_use = "dropping it leaks the memory: release()"]
pub struct RxMemory<P: Platform> {
    pub(super) ring: DmaBuf<P>,
    buffers: DmaBuf<P>,
    init: LanInit,
}

impl<P: Platform> RxMemory<P> {
    /// Allocates ring and buffers.
    ///
    /// # Errors
    /// Settings out of range; no memory.
    pub fn new(platform: &P, init: &LanInit) -> Result<Self> {
        init.check()?;
        let entries = usize::from(init.rx_entries);
        let layout = DmaLayout::new(entries.saturating_mul(WORDS * 8), RING_ALIGN);
        let ring = DmaBuf::new(platform.clone(), layout)?;
        let layout = DmaLayout::new(entries.saturating_mul(RX_BUFFER), RX_BUFFER);
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
            init: *init,
        })
    }

    /// What the device is given.
    pub(super) fn context(&self) -> RxQueueContext {
        RxQueueContext {
            ring: self.ring.iova(),
            entries: self.init.rx_entries,
            buffer: RX_BUFFER as u16,
            max_frame: self.init.max_received(),
        }
    }

    /// Bytes that are allocated.
    pub fn bytes(&self) -> usize {
        self.ring.bytes().saturating_add(self.buffers.bytes())
    }

    /// Descriptors of the ring.
    #[must_use]
    pub const fn entries(&self) -> u16 {
        self.init.rx_entries
    }

    /// The longest frame.
    pub(super) const fn max_frame(&self) -> usize {
        self.init.max_frame()
    }

    /// The buffer of descriptor `index`, and its address for the device.
    pub(super) fn buffer(&self, index: u16) -> Option<(&[<DmaBuf<P> as DmaWords>::Word], Iova)> {
        let start = usize::from(index).checked_mul(RX_BUFFER)?;
        let words = self.buffers.words();
        let words = words.get(start / 8..)?.get(..RX_BUFFER / 8)?;
        Some((words, self.buffers.iova().offset(start as u64)?))
    }

    /// Frees the memory. The device must have released it: the queue is off, was never on, or the
    /// function was reset.
    pub fn release(self) {
        self.ring.release();
        self.buffers.release();
    }
}
