//! Consumer of a completion event queue.
//!
//! A CEQ has no doorbell: an entry is finished once it has been read, and each CQ has at most one
//! outstanding until it is acknowledged ([`acknowledge`]) and armed again (control-path 7.1
//! `[inf one_ceqe_per_cq]`). The vector is enabled again only when the queue is empty.
//!
//! ```
//! # use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
//! use e810_ceq::{Ceq, CeqEntries, CqRef, Delivery};
//! # let memory = [const { AtomicU64::new(0) }; 8];
//! # memory[0].store((1 << 63 | CqRef::new(5, 0).context()).to_le(), Relaxed);
//!
//! let mut ceq = Ceq::new(&memory[..], CeqEntries::new(8)?, 64)?;
//! let drained = ceq.drain(64, |cq| {
//!     // Find the CQ by id and generation; if it lives, acknowledge and tell it.
//!     if cq.id() == 5 { Delivery::Live } else { Delivery::Stale }
//! });
//! assert_eq!(drained.live, 1);
//! if !drained.more {
//!     // Enable the vector again: e810_ceq::irq::enable_vector.
//! }
//! # Ok::<(), e810_ceq::Error>(())
//! ```

use e810_hal::regs::PFPE_CQACK;
use e810_hal::ring::Consumer;
use e810_hal::{Bus, DmaWord, DmaWords};

use crate::ceqe::{self, CqRef, SCRUBBED};
use crate::error::Result;
use crate::limits::CeqEntries;

/// What one look at the queue found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CeqStep {
    /// Nothing.
    Empty,
    /// A CQ has something to poll.
    Event(CqRef),
    /// The entry of a CQ that was destroyed; [`Ceq::scrub`] had marked it.
    Scrubbed,
    /// An id that no CQ of this function has.
    OutOfRange(CqRef),
}

/// Whether the CQ that an event names still lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Delivery {
    /// It does, and was notified.
    Live,
    /// Its id is free, or has another generation: the event was dropped.
    Stale,
}

/// What a call of [`Ceq::drain`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use = "when `more` is set the vector must not be enabled yet"]
pub struct CeqDrain {
    /// Entries taken: the sum of the three following.
    pub taken: u32,
    /// Events delivered to a living CQ.
    pub live: u32,
    /// Events whose CQ no longer exists.
    pub stale: u32,
    /// Entries that named no CQ.
    pub skipped: u32,
    /// The budget ended before the queue did: call again before enabling the
    /// vector.
    pub more: bool,
}

/// Entries seen since the queue was made; each count wraps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CeqCounts {
    /// Events returned.
    pub events: u32,
    /// Entries that [`Ceq::scrub`] had marked.
    pub scrubbed: u32,
    /// Entries with an id that no CQ of this function has.
    pub out_of_range: u32,
    /// Events that [`Ceq::drain`]'s caller found no CQ for.
    pub stale: u32,
}

/// A completion event queue in the memory `W`.
#[derive(Debug)]
pub struct Ceq<W> {
    memory: W,
    ring: Consumer,
    cqs: u32,
    counts: CeqCounts,
}

impl<W: DmaWords> Ceq<W> {
    /// A queue of `entries` at the beginning of `memory`, which is zero and
    /// which CREATE_CEQ is given next; ids from `cqs` on, the number of
    /// committed CQs, are refused.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory) when the memory is too short.
    pub fn new(memory: W, entries: CeqEntries, cqs: u32) -> Result<Self> {
        let ring = entries.consumer(memory.words().len())?;
        Ok(Self {
            memory,
            ring,
            cqs,
            counts: CeqCounts::default(),
        })
    }

    /// Takes one entry, if there is one.
    #[inline]
    pub fn poll(&mut self) -> CeqStep {
        // An entry is one word: nothing is read after its valid bit, so no barrier is needed
        // here. The CQ's own poll has one.
        let Some(entry) = self.valid_entry(self.ring) else {
            return CeqStep::Empty;
        };
        self.ring.advance();
        let cq = CqRef::from_context(entry);
        if cq.id() == SCRUBBED {
            self.counts.scrubbed = self.counts.scrubbed.wrapping_add(1);
            CeqStep::Scrubbed
        } else if cq.id() >= self.cqs {
            self.counts.out_of_range = self.counts.out_of_range.wrapping_add(1);
            CeqStep::OutOfRange(cq)
        } else {
            self.counts.events = self.counts.events.wrapping_add(1);
            CeqStep::Event(cq)
        }
    }

    /// Takes at most `budget` entries and passes each event to `deliver`. `deliver` finds the CQ
    /// by id and generation, and if the CQ lives calls [`acknowledge`] and then its completion
    /// handler (control-path 7.1).
    pub fn drain(&mut self, budget: u32, mut deliver: impl FnMut(CqRef) -> Delivery) -> CeqDrain {
        let mut drained = CeqDrain::default();
        while drained.taken < budget {
            match self.poll() {
                CeqStep::Empty => return drained,
                CeqStep::Event(cq) => match deliver(cq) {
                    Delivery::Live => drained.live = drained.live.wrapping_add(1),
                    Delivery::Stale => {
                        self.counts.stale = self.counts.stale.wrapping_add(1);
                        drained.stale = drained.stale.wrapping_add(1);
                    }
                },
                CeqStep::Scrubbed | CeqStep::OutOfRange(_) => {
                    drained.skipped = drained.skipped.wrapping_add(1);
                }
            }
            drained.taken = drained.taken.wrapping_add(1);
        }
        drained.more = self.valid_entry(self.ring).is_some();
        drained
    }

    /// Marks the entries of a CQ that wait in the queue, and returns how many there were. Call it
    /// after DESTROY_CQ (control-path 7.2); entries of another CQ that has the id now stay. Even
    /// without it, events of a CQ that is gone are told apart by generation.
    pub fn scrub(&mut self, cq: CqRef) -> u32 {
        let mut ahead = self.ring;
        let mut marked = 0u32;
        for _ in 0..self.ring.size() {
            let Some(entry) = self.valid_entry(ahead) else {
                break;
            };
            if CqRef::from_context(entry) == cq && cq.id() != SCRUBBED {
                if let Some([cell]) = self.memory.block::<1>(ahead.index() as usize) {
                    cell.publish(ceqe::scrubbed(entry));
                }
                marked = marked.wrapping_add(1);
            }
            ahead.advance();
        }
        marked
    }

    /// Entries that wait in the queue.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        let mut ahead = self.ring;
        let mut waiting = 0u32;
        while waiting < self.ring.size() && self.valid_entry(ahead).is_some() {
            ahead.advance();
            waiting = waiting.wrapping_add(1);
        }
        waiting
    }

    /// What has been seen so far.
    #[must_use]
    pub const fn counts(&self) -> CeqCounts {
        self.counts
    }

    /// Where the next entry is expected, and with which polarity.
    #[must_use]
    pub const fn position(&self) -> Consumer {
        self.ring
    }

    /// The memory, for DESTROY_CEQ's caller to give back.
    pub fn into_memory(self) -> W {
        self.memory
    }

    /// The memory.
    pub const fn memory(&self) -> &W {
        &self.memory
    }

    #[inline(always)]
    fn valid_entry(&self, at: Consumer) -> Option<u64> {
        let [cell] = self.memory.block::<1>(at.index() as usize)?;
        let entry = cell.observe();
        ceqe::is_valid(entry, at.polarity()).then_some(entry)
    }
}

/// Tells the device that the CEQ entry of CQ `cq` was seen: PFPE_CQACK. Call it before the CQ's
/// completion handler runs (control-path 7.1), and only for a CQ that exists.
#[inline]
pub fn acknowledge(bus: &(impl Bus + ?Sized), cq: CqRef) {
    PFPE_CQACK.write(bus, PFPE_CQACK::PECQID.val(cq.id()));
}

#[cfg(test)]
mod tests;
