//! The ring: frames are posted, and descriptors that are done are taken back.

use e810_hal::bus::TxQueueId;
use e810_hal::regs::{QINT_TQCTL, QTX_COMM_DBELL};
use e810_hal::{DmaWord, DmaWords, Ns, Platform};

use super::memory::{TxMemory, WORDS};
use crate::copy::write_frame;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;

/// The least frame: an Ethernet header.
pub const MIN_FRAME: usize = 14;

/// Frames are padded to this. The device itself only pads from 17 bytes on (lan-path 1.4);
/// padding here keeps old contents of a buffer from leaving.
const PADDED: usize = 60;

/// Fields of the second word of a data descriptor (lan-path 4.1).
mod field {
    /// DTYPE, and its value for a descriptor that is done (lan-path 4.3).
    pub(super) const DTYPE: u64 = 0xF;
    pub(super) const DONE: u64 = 0xF;
    /// Last descriptor of the frame.
    pub(super) const EOP: u64 = 1 << 4;
    /// Report status.
    pub(super) const RS: u64 = 1 << 5;
    /// Bytes of the buffer.
    pub(super) const SIZE_SHIFT: u32 = 34;
}

/// Descriptors that stay free: one, so that a full ring does not look empty, and a cache line of
/// four, where the device's head is (lan-path 1.4, 3.4).
const KEPT_FREE: u16 = 5;

/// How long a full ring may stay unchanged before it counts as hanging: the time after which
/// Linux checks a transmit queue (lan-path 1.4).
pub const STALLED_AFTER: Ns = Ns::from_ms(5_000);

/// Frames of a transmit queue; each count wraps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TxCounts {
    /// Frames posted.
    pub frames: u64,
    /// Their bytes, padding not counted.
    pub bytes: u64,
    /// Frames that the device has reported as done.
    pub done: u64,
    /// Frames refused because the ring was full.
    pub refused: u64,
}

/// A transmit queue that is on.
#[derive(Debug)]
#[must_use = "a queue that is dropped leaks its memory: disable it and stop()"]
pub struct TxRing<P: Platform> {
    platform: P,
    queue: TxQueueId,
    memory: TxMemory<P>,
    /// Where the next frame goes.
    next: u16,
    /// The oldest frame that is not done.
    oldest: u16,
    used: u16,
    /// When a frame was first refused since one has left.
    full_since: Option<Ns>,
    counts: TxCounts,
}

impl<P: Platform> TxRing<P> {
    /// Takes over queue `queue`, which the firmware has just added with this memory and which is
    /// on since then, and binds its interrupt (lan-path 1.1, step 10).
    pub fn start(platform: P, queue: TxQueueId, memory: TxMemory<P>, interrupt: Interrupt) -> Self {
        interrupt.set_interval(&platform);
        interrupt.bind_tx(&platform, queue);
        Self {
            platform,
            queue,
            memory,
            next: 0,
            oldest: 0,
            used: 0,
            full_since: None,
            counts: TxCounts::default(),
        }
    }

    /// Posts a frame: one data descriptor, one doorbell.
    ///
    /// # Errors
    /// [`Error::FrameLength`], [`Error::Full`], [`Error::Stalled`]; nothing was posted.
    pub fn transmit(&mut self, frame: &[u8]) -> Result<()> {
        let max = self.memory.max_frame();
        let length = Error::FrameLength {
            bytes: frame.len(),
            min: MIN_FRAME,
            max,
        };
        if !(MIN_FRAME..=max).contains(&frame.len()) {
            return Err(length);
        }
        self.reclaim();
        if self.used >= self.memory.entries().saturating_sub(KEPT_FREE) {
            self.counts.refused = self.counts.refused.wrapping_add(1);
            return Err(self.full());
        }
        // There is a descriptor and a buffer for each index.
        let entry = self.memory.ring.block::<WORDS>(usize::from(self.next));
        let (Some([address, command]), Some((buffer, iova))) =
            (entry, self.memory.buffer(self.next))
        else {
            return Err(length);
        };
        write_frame(buffer, frame, PADDED);
        let bytes = frame.len().max(PADDED) as u64;
        address.set(iova.0);
        command.publish(field::EOP | field::RS | bytes << field::SIZE_SHIFT);
        self.next = after(self.next, self.memory.entries());
        self.used = self.used.saturating_add(1);
        // Frame and descriptor before the doorbell.
        self.platform.to_device();
        QTX_COMM_DBELL
            .at(self.queue)
            .set(&self.platform, self.next.into());
        self.counts.frames = self.counts.frames.wrapping_add(1);
        self.counts.bytes = self.counts.bytes.wrapping_add(frame.len() as u64);
        Ok(())
    }

    /// The error for a full ring. This looks at the clock; sending a frame does not.
    fn full(&mut self) -> Error {
        let now = self.platform.now();
        let since = *self.full_since.get_or_insert(now);
        match now - since >= STALLED_AFTER {
            true => Error::Stalled {
                frames: self.used,
                limit: STALLED_AFTER,
            },
            false => Error::Full { frames: self.used },
        }
    }

    /// Takes back descriptors that are done. They are in ring order (lan-path 4.3);
    /// any other type than "done" is not done, whatever else is written there.
    fn reclaim(&mut self) {
        while self.used > 0 {
            let entry = self.memory.ring.block::<WORDS>(usize::from(self.oldest));
            let Some([_, command]) = entry else {
                return;
            };
            if command.observe() & field::DTYPE != field::DONE {
                return;
            }
            self.oldest = after(self.oldest, self.memory.entries());
            self.used = self.used.saturating_sub(1);
            self.full_since = None;
            self.counts.done = self.counts.done.wrapping_add(1);
        }
    }

    /// Frames that are posted and not done.
    pub fn outstanding(&mut self) -> u16 {
        self.reclaim();
        self.used
    }

    /// What has been sent so far.
    #[must_use]
    pub const fn counts(&self) -> TxCounts {
        self.counts
    }

    /// The queue.
    #[must_use]
    pub const fn queue(&self) -> TxQueueId {
        self.queue
    }

    /// Switches the queue's cause off, before the firmware disables the queue (lan-path 1.3, step
    /// 4). Existing drivers then raise a software interrupt, so that their handler runs once
    /// more; this driver has none.
    pub fn unbind(&self) {
        QINT_TQCTL.at(self.queue).set(&self.platform, 0);
    }

    /// Gives the memory back, after the firmware has disabled the queue or the function was
    /// reset. Frames that are not done are lost.
    pub fn stop(self) -> TxMemory<P> {
        self.memory.clear();
        self.memory
    }
}

/// The index after `index`.
const fn after(index: u16, entries: u16) -> u16 {
    let next = index.saturating_add(1);
    if next >= entries { 0 } else { next }
}
