//! The ring: buffers are posted, and frames are taken out of the filled ones.

use e810_hal::bus::RxQueueId;
use e810_hal::regs::QRX_TAIL;
use e810_hal::{DmaWord, DmaWords, Platform, log_warn};

use super::context::MAX_CHAIN;
use super::control;
use super::descriptor::{WORDS, Written, is_done};
use super::memory::{RX_BUFFER, RxMemory};
use crate::copy::read_frame;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::tx::MIN_FRAME;

/// The device ignores the lower three bits of the tail (lan-path 5.3).
const TAIL_STEP: u16 = 8;

/// Frames of a receive queue; each count wraps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RxCounts {
    /// Frames given to the program.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames dropped because the device reports an error of the MAC or the buffer
    /// (RXE, HBO).
    pub damaged: u64,
    /// Frames dropped because they are longer than the program's buffer.
    pub too_long: u64,
    /// Frames dropped because a length or a chain of descriptors makes no sense.
    pub malformed: u64,
    /// Frames dropped because a VLAN tag was taken out of them: they would look like untagged
    /// frames.
    pub tag_lost: u64,
    /// Descriptors in another format than the one asked for; their frames are
    /// dropped.
    pub format: u64,
}

/// A receive queue that could not be switched on.
#[derive(Debug)]
pub struct NotEnabled<P: Platform> {
    /// Why.
    pub error: Error,
    /// What is left of it.
    pub left: RxLeft<P>,
}

/// What is left of a receive queue that was not switched on.
#[derive(Debug)]
pub enum RxLeft<P: Platform> {
    /// Its memory: the queue is off.
    Memory(RxMemory<P>),
    /// The queue: it may be on.
    Queue(RxRing<P>),
}

/// A receive queue that is on.
#[derive(Debug)]
#[must_use = "a queue that is dropped leaks its memory: disable()"]
pub struct RxRing<P: Platform> {
    platform: P,
    queue: RxQueueId,
    memory: RxMemory<P>,
    /// The descriptor that is looked at next.
    next: u16,
    /// The tail that the device was given last.
    tail: u16,
    /// The rest of a dropped frame is still to come.
    skipping: bool,
    counts: RxCounts,
}

/// What the ring holds from the next descriptor on.
enum Found {
    /// No frame, or not all of one.
    Nothing,
    /// The bytes in each of its descriptors; or what is wrong with it.
    Frame {
        descriptors: u16,
        verdict: Result<[u16; MAX_CHAIN], Fault>,
        is_whole: bool,
    },
}

/// Why a frame is dropped.
#[derive(Clone, Copy)]
enum Fault {
    Damaged,
    Malformed,
    TagLost,
    Format,
}

impl<P: Platform> RxRing<P> {
    /// Programs queue `queue`, fills its ring, binds its interrupt and switches it on
    /// (lan-path 1.1, steps 9 to 11). A queue that a driver before has left on is
    /// switched off first.
    ///
    /// # Errors
    /// [`NotEnabled`]: a device that does not answer, or is gone.
    pub fn enable(
        platform: P,
        queue: RxQueueId,
        memory: RxMemory<P>,
        interrupt: Interrupt,
    ) -> Result<Self, NotEnabled<P>> {
        let programmed = control::switch(&platform, queue, false)
            .and_then(|()| memory.context().encode())
            .and_then(|words| control::program(&platform, queue, &words));
        if let Err(error) = programmed {
            let left = RxLeft::Memory(memory);
            return Err(NotEnabled { error, left });
        }
        let mut ring = Self {
            platform,
            queue,
            memory,
            next: 0,
            tail: 0,
            skipping: false,
            counts: RxCounts::default(),
        };
        for index in 0..ring.memory.entries() {
            ring.post(index);
        }
        ring.move_tail();
        interrupt.set_interval(&ring.platform);
        interrupt.bind_rx(&ring.platform, queue);
        match control::switch(&ring.platform, queue, true) {
            Ok(()) => Ok(ring),
            Err(error) => {
                ring.unbind();
                let left = match ring.disable() {
                    Ok(memory) => RxLeft::Memory(memory),
                    Err((ring, _)) => RxLeft::Queue(ring),
                };
                Err(NotEnabled { error, left })
            }
        }
    }

    /// Copies the next frame to `into` and returns its length; drops and counts bad frames. Looks
    /// at each descriptor of the ring at most once.
    pub fn receive(&mut self, into: &mut [u8]) -> Option<usize> {
        let mut left = self.memory.entries();
        while left > 0 {
            let Found::Frame {
                descriptors,
                verdict,
                is_whole,
            } = self.find()
            else {
                return None;
            };
            let skipped = core::mem::replace(&mut self.skipping, !is_whole);
            let mut received = None;
            match verdict {
                // Counted at its beginning.
                _ if skipped => {}
                Ok(lengths) => received = self.take(&lengths, into),
                Err(fault) => self.count(fault),
            }
            self.give_back(descriptors);
            if received.is_some() {
                return received;
            }
            left = left.saturating_sub(descriptors);
        }
        None
    }

    /// Looks for the frame that begins at the next descriptor; nothing is changed.
    fn find(&self) -> Found {
        let mut lengths = [0; MAX_CHAIN];
        let mut bytes = 0usize;
        let mut fault = None;
        for (place, length) in (0..).zip(&mut lengths) {
            let index = self.ahead(place);
            let Some([q0, q8, q16, _]) = self.memory.ring.block::<WORDS>(usize::from(index)) else {
                return Found::Nothing;
            };
            let status = q8.observe();
            if !is_done(status) {
                return Found::Nothing;
            }
            // The other words, and the buffer, after the one with DD.
            self.platform.from_device();
            let written = Written::decode(q0.get(), status, q16.get());
            fault = fault.or(judge(written));
            *length = written.length;
            bytes = bytes.saturating_add(usize::from(written.length));
            if written.is_last {
                if bytes < MIN_FRAME {
                    fault = fault.or(Some(Fault::Malformed));
                }
                return Found::Frame {
                    descriptors: place.saturating_add(1),
                    verdict: fault.map_or(Ok(lengths), Err),
                    is_whole: true,
                };
            }
        }
        // Longer than a frame can be: everything up to its end is dropped.
        Found::Frame {
            descriptors: MAX_CHAIN as u16,
            verdict: Err(fault.unwrap_or(Fault::Malformed)),
            is_whole: false,
        }
    }

    /// Copies a frame out of its buffers. The lengths are those that were checked: the
    /// descriptors are not read again.
    fn take(&mut self, lengths: &[u16; MAX_CHAIN], into: &mut [u8]) -> Option<usize> {
        let bytes = lengths.iter().map(|length| usize::from(*length)).sum();
        let Some(mut rest) = into.get_mut(..bytes) else {
            self.counts.too_long = self.counts.too_long.wrapping_add(1);
            return None;
        };
        for (place, length) in (0..).zip(lengths) {
            if *length == 0 {
                continue;
            }
            let (buffer, _) = self.memory.buffer(self.ahead(place))?;
            let (part, behind) = rest.split_at_mut_checked(usize::from(*length))?;
            read_frame(buffer, part);
            rest = behind;
        }
        self.counts.frames = self.counts.frames.wrapping_add(1);
        self.counts.bytes = self.counts.bytes.wrapping_add(bytes as u64);
        Some(bytes)
    }

    fn count(&mut self, fault: Fault) {
        let count = match fault {
            Fault::Damaged => &mut self.counts.damaged,
            Fault::Malformed => &mut self.counts.malformed,
            Fault::TagLost => &mut self.counts.tag_lost,
            Fault::Format => &mut self.counts.format,
        };
        *count = count.wrapping_add(1);
    }

    /// Posts descriptors again that were taken, and tells the device once there are enough of
    /// them.
    fn give_back(&mut self, descriptors: u16) {
        for _ in 0..descriptors {
            self.post(self.next);
            self.next = self.ahead(1);
        }
        self.move_tail();
    }

    /// Writes a descriptor as posted (lan-path 5.5). The device has overwritten it; a
    /// second word of 0 also says that it is not done.
    fn post(&self, index: u16) {
        let entry = self.memory.ring.block::<WORDS>(usize::from(index));
        if let (Some([q0, q8, ..]), Some((_, iova))) = (entry, self.memory.buffer(index)) {
            q0.set(iova.0);
            q8.publish(0);
        }
    }

    /// Gives the device all descriptors but one, cut to a multiple of eight.
    fn move_tail(&mut self) {
        let last = self.ahead(self.memory.entries().saturating_sub(1));
        let tail = last & !(TAIL_STEP - 1);
        if tail != self.tail {
            self.tail = tail;
            // Descriptors before the tail.
            self.platform.to_device();
            let register = QRX_TAIL.at(self.queue);
            register.set(&self.platform, tail.into());
        }
    }

    /// The descriptor `count` after the next one; `count` is below their number.
    const fn ahead(&self, count: u16) -> u16 {
        let entries = self.memory.entries();
        let index = self.next.saturating_add(count);
        if index >= entries {
            index.saturating_sub(entries)
        } else {
            index
        }
    }

    /// The longest frame, without FCS.
    #[must_use]
    pub const fn max_frame(&self) -> usize {
        self.memory.max_frame()
    }

    /// What was received and dropped so far.
    #[must_use]
    pub const fn counts(&self) -> RxCounts {
        self.counts
    }

    /// The queue.
    #[must_use]
    pub const fn queue(&self) -> RxQueueId {
        self.queue
    }

    /// Switches the queue's cause off, first of all (lan-path 1.3, step 2).
    pub fn unbind(&self) {
        control::unbind(&self.platform, self.queue);
    }

    /// Switches the queue off and gives its memory back (lan-path 1.3, step 5), after
    /// [`unbind`](Self::unbind). Frames that were not taken are lost.
    ///
    /// # Errors
    /// A device that does not answer, with the queue, whose memory may still be written.
    pub fn disable(self) -> Result<RxMemory<P>, (Self, Error)> {
        if let Err(error) = control::switch(&self.platform, self.queue, false) {
            log_warn!("receive queue {} stays on: {}", self.queue.get(), error);
            return Err((self, error));
        }
        Ok(self.memory)
    }

    /// Gives the memory back after the function was reset.
    pub fn stop_after_reset(self) -> RxMemory<P> {
        self.memory
    }
}

/// What is wrong with one descriptor of a frame.
const fn judge(written: Written) -> Option<Fault> {
    if !written.is_ours {
        Some(Fault::Format)
    } else if written.is_damaged {
        Some(Fault::Damaged)
    } else if written.length as usize > RX_BUFFER {
        Some(Fault::Malformed)
    } else if written.has_lost_tag {
        Some(Fault::TagLost)
    } else {
        None
    }
}
