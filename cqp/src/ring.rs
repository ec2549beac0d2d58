//! The CQP's send queue: the next entry, and how an entry is published.
//!
//! [`SendRing`] holds indexes only; the words are passed to it. So the same
//! code runs on DMA memory and on the recording words of the unit tests, which
//! check the order: body, barrier, header, barrier, doorbell.
//!
//! Existing drivers clear the header word before the body is written; this driver does not. In
//! every second lap a clear VALID bit means *valid*, and a device that reads ahead would take the
//! entry half written. What is left there from the previous lap is invalid in this one.

use e810_hal::regs::PFPE_CQPDB;
use e810_hal::ring::Producer;
use e810_hal::{Barrier, Bus, DmaWord, DmaWords};

use crate::error::{Error, Result};
use crate::limits::{MAX_SQ_ENTRIES, MIN_SQ_ENTRIES};
use crate::op::{HEADER, VALID, Wqe};

/// An entry that was handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Index in the ring (WQEIDX).
    pub index: u32,
    /// Number of the command since the CQP was created: index and lap in one.
    pub sequence: u64,
    /// Value of VALID in this lap.
    pub polarity: bool,
}

/// Producer side of the CQP's send queue (control-path 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendRing {
    producer: Producer,
    posted: u64,
}

impl SendRing {
    /// A ring of `entries`.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless `entries` is a power of two from 4 to 2048.
    pub fn new(entries: u32) -> Result<Self> {
        let fits = (MIN_SQ_ENTRIES..=MAX_SQ_ENTRIES).contains(&entries);
        let producer = Producer::new(entries).filter(|_| fits);
        let producer = producer.ok_or(Error::Invalid {
            what: "the CQP has a power of two of entries, 4 to 2048",
        })?;
        Ok(Self {
            producer,
            posted: 0,
        })
    }

    /// Entries in the ring; one of them always stays free.
    #[must_use]
    pub const fn entries(&self) -> u32 {
        self.producer.size()
    }

    /// Entries in use.
    #[must_use]
    pub const fn used(&self) -> u32 {
        self.producer.used()
    }

    /// Index of the next entry: what PFPE_CQPDB is written with.
    #[must_use]
    pub const fn head(&self) -> u32 {
        self.producer.head()
    }

    /// The index that command `sequence` has.
    #[must_use]
    pub const fn index_of(&self, sequence: u64) -> u32 {
        (sequence & (self.producer.size() as u64).wrapping_sub(1)) as u32
    }

    /// The oldest command that is not retired.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        let used = self.producer.used();
        (used > 0).then(|| self.posted.wrapping_sub(u64::from(used)))
    }

    /// Number the next command will have.
    #[must_use]
    pub const fn next_sequence(&self) -> u64 {
        self.posted
    }

    /// Takes the next entry.
    ///
    /// # Errors
    /// [`Error::RingFull`].
    pub fn claim(&mut self) -> Result<Entry> {
        let claim = self.producer.claim(1).ok_or(Error::RingFull {
            entries: self.producer.size().saturating_sub(1),
        })?;
        let sequence = self.posted;
        self.posted = self.posted.wrapping_add(1);
        Ok(Entry {
            index: claim.index,
            sequence,
            polarity: claim.polarity,
        })
    }

    /// Gives the oldest entry back for reuse.
    pub fn retire(&mut self) -> Option<u32> {
        self.producer.retire()
    }
}

/// Writes `wqe` to `entry` of the ring in `words`: body, barrier, header.
///
/// # Errors
/// [`Error::Invalid`] when the memory is smaller than the ring.
pub fn publish<W: DmaWords + ?Sized>(
    words: &W,
    barrier: &(impl Barrier + ?Sized),
    entry: Entry,
    wqe: &Wqe,
) -> Result<()> {
    let block = words
        .block::<8>(entry.index as usize)
        .ok_or(Error::Invalid {
            what: "the CQP's memory is smaller than its ring",
        })?;
    for (n, (cell, word)) in block.iter().zip(wqe).enumerate() {
        if n != HEADER {
            cell.set(*word);
        }
    }
    // The body before the VALID bit: read by the device once it sees the bit.
    barrier.to_device();
    let valid = if entry.polarity { VALID } else { 0 };
    block[HEADER].publish((wqe[HEADER] & !VALID) | valid);
    Ok(())
}

/// Tells the device that entries up to `head` are published.
pub fn ring_doorbell(bus: &(impl Bus + ?Sized), barrier: &(impl Barrier + ?Sized), head: u32) {
    // The header before the doorbell: read by the device when it is rung.
    barrier.to_device();
    PFPE_CQPDB.write(bus, PFPE_CQPDB::WQHEAD.val(head));
}

#[cfg(test)]
mod tests;
