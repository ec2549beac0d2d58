//! Consumer of the asynchronous event queue.
//!
//! PFPE_AEQALLOC gives entries back to the device by their number, including those that software
//! dropped (control-path 7.3). An entry with OVERFLOW set means that the device ran out of
//! entries: no more credit is given, and only a reset of the function helps.
//!
//! ```
//! # use core::sync::atomic::AtomicU64;
//! # use e810_hal::{Bus, RegOffset};
//! # struct Pretend;
//! # impl Bus for Pretend {
//! #     fn read32(&self, _: RegOffset) -> u32 { 0 }
//! #     fn write32(&self, _: RegOffset, _: u32) {}
//! # }
//! # impl e810_hal::Barrier for Pretend {}
//! # let platform = Pretend;
//! use e810_ceq::{Aeq, AeqEntries};
//! use e810_ceq::aeq::Ids;
//!
//! # let memory = [const { AtomicU64::new(0) }; 16];
//! let mut aeq = Aeq::new(&memory[..], AeqEntries::new(8)?, Ids { qps: 64, cqs: 64 })?;
//! let drained = aeq.drain(&platform, 64, |event| {
//!     // Mark the QP or CQ that event.object() names.
//!     # let _ = event;
//! })?;
//! if !drained.more {
//!     // Enable the vector again: e810_ceq::irq::enable_vector.
//! }
//! # Ok::<(), e810_ceq::Error>(())
//! ```

use e810_hal::regs::PFPE_AEQALLOC;
use e810_hal::ring::Consumer;
use e810_hal::{Barrier, Bus, DmaWord, DmaWords};

use crate::aeqe::{self, Aeqe, Object};
use crate::error::{Error, Result};
use crate::limits::AeqEntries;

/// Number of objects of each kind that the function has: an entry with another id does not belong
/// to this function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ids {
    /// Committed QPs.
    pub qps: u32,
    /// Committed CQs.
    pub cqs: u32,
}

impl Ids {
    const fn has(self, object: Object) -> bool {
        match object {
            Object::Qp(id) => id < self.qps,
            Object::Cq(id) => id < self.cqs,
            // This device has no shared receive queues; the event is reported as the function's.
            Object::Srq(_) | Object::Function => true,
        }
    }
}

/// What one look at the queue found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AeqStep {
    /// Nothing.
    Empty,
    /// Something happened.
    Event(Aeqe),
    /// An entry for a QP or CQ that the function does not have.
    OutOfRange(Aeqe),
    /// The queue overflowed: this event, and others that are lost.
    Overflow(Aeqe),
}

/// What a call of [`Aeq::drain`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use = "when `more` is set the vector must not be enabled yet"]
pub struct AeqDrain {
    /// Entries taken and given back to the device: events and skipped ones.
    pub taken: u32,
    /// Events delivered.
    pub events: u32,
    /// Entries for a QP or CQ that the function does not have.
    pub skipped: u32,
    /// The budget ended before the queue did: call again before enabling the
    /// vector.
    pub more: bool,
}

/// Entries seen since the queue was made; each count wraps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AeqCounts {
    /// Events returned.
    pub events: u32,
    /// Entries for a QP or CQ that the function does not have.
    pub out_of_range: u32,
}

/// The asynchronous event queue in the memory `W`.
#[derive(Debug)]
pub struct Aeq<W> {
    memory: W,
    ring: Consumer,
    ids: Ids,
    counts: AeqCounts,
    overflowed: bool,
}

impl<W: DmaWords> Aeq<W> {
    /// A queue of `entries` at the beginning of `memory`, which is zero and
    /// which CREATE_AEQ is given next. All entries belong to the device from
    /// then on; no credit is written at the start (control-path 7.3 `[inf aeq_starts_full]`).
    ///
    /// # Errors
    /// [`Error::Memory`] when the memory is too short.
    pub fn new(memory: W, entries: AeqEntries, ids: Ids) -> Result<Self> {
        let ring = entries.consumer(memory.words().len())?;
        Ok(Self {
            memory,
            ring,
            ids,
            counts: AeqCounts::default(),
            overflowed: false,
        })
    }

    /// Takes one entry, if there is one, without giving it back to the device; [`Aeq::drain`]
    /// does both.
    pub fn poll(&mut self, barrier: &(impl Barrier + ?Sized)) -> AeqStep {
        if self.overflowed {
            return AeqStep::Empty;
        }
        let Some([context, word]) = self.memory.block::<2>(self.ring.index() as usize) else {
            return AeqStep::Empty;
        };
        let valid = word.observe();
        if !aeqe::is_valid(valid, self.ring.polarity()) {
            return AeqStep::Empty;
        }
        barrier.from_device();
        let event = Aeqe::decode([context.get(), valid]);
        self.ring.advance();
        if event.overflow {
            self.overflowed = true;
            AeqStep::Overflow(event)
        } else if self.ids.has(event.object()) {
            self.counts.events = self.counts.events.wrapping_add(1);
            AeqStep::Event(event)
        } else {
            self.counts.out_of_range = self.counts.out_of_range.wrapping_add(1);
            AeqStep::OutOfRange(event)
        }
    }

    /// Takes at most `budget` entries, passes each event to `deliver`, and returns all entries to
    /// the device in one PFPE_AEQALLOC write (none if nothing was taken).
    ///
    /// # Errors
    /// [`Error::AeqOverflow`], now and on every later call, once an entry has
    /// OVERFLOW set. What was taken in this call has been delivered, the event
    /// of that entry too; no credit is written (control-path 7.3).
    pub fn drain<P: Bus + Barrier + ?Sized>(
        &mut self,
        platform: &P,
        budget: u32,
        mut deliver: impl FnMut(Aeqe),
    ) -> Result<AeqDrain> {
        if self.overflowed {
            return Err(Error::AeqOverflow);
        }
        let mut drained = AeqDrain::default();
        while drained.taken < budget {
            match self.poll(platform) {
                AeqStep::Empty => break,
                AeqStep::Event(event) => {
                    deliver(event);
                    drained.events = drained.events.wrapping_add(1);
                }
                AeqStep::OutOfRange(_) => drained.skipped = drained.skipped.wrapping_add(1),
                AeqStep::Overflow(event) => {
                    if self.ids.has(event.object()) {
                        deliver(event);
                    }
                    return Err(Error::AeqOverflow);
                }
            }
            drained.taken = drained.taken.wrapping_add(1);
        }
        if drained.taken > 0 {
            PFPE_AEQALLOC.write(platform, PFPE_AEQALLOC::AECOUNT.val(drained.taken));
        }
        drained.more = drained.taken == budget && self.has_entry();
        Ok(drained)
    }

    /// Whether an OVERFLOW was seen: the function must be reset.
    #[must_use]
    pub const fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// What has been seen so far.
    #[must_use]
    pub const fn counts(&self) -> AeqCounts {
        self.counts
    }

    /// Where the next entry is expected, and with which polarity.
    #[must_use]
    pub const fn position(&self) -> Consumer {
        self.ring
    }

    /// The memory, for DESTROY_AEQ's caller to give back.
    pub fn into_memory(self) -> W {
        self.memory
    }

    /// The memory.
    pub const fn memory(&self) -> &W {
        &self.memory
    }

    fn has_entry(&self) -> bool {
        self.memory
            .block::<2>(self.ring.index() as usize)
            .is_some_and(|[_, word]| aeqe::is_valid(word.observe(), self.ring.polarity()))
    }
}

#[cfg(test)]
mod tests;
