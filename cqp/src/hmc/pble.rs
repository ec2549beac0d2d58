//! Physical buffer lists: the pages of regions and queues that are not
//! contiguous for the device (control-path 6.7).

use core::ops::Range;
use core::sync::atomic::Ordering;

use e810_hal::{HostBuf, Iova, Platform};

use super::bitmap::Bitmap;
use super::layout::{Area, PAGE_BYTES, align_up};
use crate::error::{Error, Result};
use crate::op::{Pages, QueueMemory};

/// Bytes of an entry.
pub(super) const PBLE_BYTES: u64 = 8;
/// Entries of an allocation unit of 64 bytes.
const UNIT: u32 = 8;
/// Entries of a leaf.
pub(super) const LEAF: u32 = 512;
/// With fewer usable entries than this there is no PBLE area.
const FEWEST: u32 = 512;

/// Whether a list may have two levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PbleUse {
    /// A region: one level, or a root with leaves when there is no room in one
    /// piece.
    Region,
    /// A queue: one level only.
    Queue,
}

/// A list of PBLEs. Give it back with [`Hmc::free_pbles`](super::Hmc::free_pbles).
#[derive(Debug)]
#[must_use = "dropping a list loses its PBLEs: give it back with free_pbles()"]
pub struct PbleList<P: Platform> {
    /// First entry of the list, or of the root.
    first: u32,
    /// Pages.
    count: u32,
    /// First entries of the leaves, one in each word, when there are two levels. Kept here
    /// because the root lies in memory that the device could change.
    leaves: Option<HostBuf<P>>,
}

impl<P: Platform> PbleList<P> {
    /// Pages the list has room for.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.count
    }

    /// First entry of the list, or of its root, which a fast registration names.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The list as [`RegisterMr`](crate::op::RegisterMr) names it.
    #[must_use]
    pub fn region(&self) -> Pages {
        match self.leaves {
            None => Pages::Level1(self.first),
            Some(_) => Pages::Level2(self.first),
        }
    }

    /// The list as a queue's memory, if it has one level.
    #[must_use]
    pub fn queue(&self) -> Option<QueueMemory> {
        match self.leaves {
            None => Some(QueueMemory::Pbles(self.first)),
            Some(_) => None,
        }
    }

    /// Entries of each consecutive run that holds pages.
    pub(super) fn runs(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let single = match self.leaves {
            None => Some(self.first..self.first.saturating_add(self.count)),
            Some(_) => None,
        };
        let leaves = self.leaves.as_ref().map_or(&[][..], HostBuf::words);
        let leaf_runs = leaves.iter().enumerate().map(|(n, word)| {
            // Leaf indexes have 28 bits, a list at most 2^28 entries.
            let first = word.load(Ordering::Relaxed) as u32;
            let before = (n as u32).saturating_mul(LEAF);
            let entries = self.count.saturating_sub(before).min(LEAF);
            first..first.saturating_add(entries)
        });
        single.into_iter().chain(leaf_runs)
    }

    /// Entries of the root and what they hold.
    pub(super) fn root(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let leaves = self.leaves.as_ref().map_or(&[][..], HostBuf::words);
        let entry = |n: usize| self.first.saturating_add(n as u32);
        leaves
            .iter()
            .enumerate()
            .map(move |(n, word)| (entry(n), word.load(Ordering::Relaxed)))
    }

    /// Entries of the root.
    pub(super) fn root_run(&self) -> Option<Range<u32>> {
        self.leaves.as_ref().map(|leaves| {
            let entries = leaves.words().len() as u32;
            self.first..self.first.saturating_add(entries)
        })
    }

    /// Every run of entries that was taken for this list.
    fn taken(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.root_run().into_iter().chain(self.runs())
    }
}

/// Which PBLEs are taken.
#[derive(Debug)]
pub(super) struct PblePool<P: Platform> {
    platform: P,
    bitmap: HostBuf<P>,
    /// Entries before this one are lost to rounding the base up to a page.
    skipped: u32,
    units: u32,
    free_units: u32,
}

impl<P: Platform> PblePool<P> {
    /// 64-bit words of host memory for this many entries.
    pub(super) const fn host_words(entries: u64) -> usize {
        // The entries have 28 bits.
        Bitmap::words_for((entries / UNIT as u64) as u32)
    }

    /// The pool of a committed area.
    pub(super) fn new(platform: P, area: Area) -> Result<Self> {
        let lost = align_up(area.base, PAGE_BYTES).saturating_sub(area.base) / PBLE_BYTES;
        // Less than a page.
        let skipped = lost as u32;
        let usable = area.count.saturating_sub(skipped);
        if usable < FEWEST {
            return Err(Error::Reply {
                what: "number of usable PBLEs",
                value: u64::from(usable),
            });
        }
        let units = usable / UNIT;
        let bitmap = HostBuf::new(platform.clone(), Bitmap::words_for(units))?;
        Bitmap(bitmap.words()).close(units);
        Ok(Self {
            platform,
            bitmap,
            skipped,
            units,
            free_units: units,
        })
    }

    /// Entries that are free, perhaps in pieces.
    pub(super) fn free_entries(&self) -> u32 {
        self.free_units.saturating_mul(UNIT)
    }

    /// Number of entries.
    pub(super) fn entries(&self) -> u32 {
        self.units.saturating_mul(UNIT)
    }

    /// Takes `entries` consecutive entries; returns the first.
    fn take(&mut self, entries: u32) -> Option<u32> {
        let units = entries.div_ceil(UNIT);
        let start = Bitmap(self.bitmap.words()).take(units)?;
        self.free_units = self.free_units.saturating_sub(units);
        Some(self.skipped.saturating_add(start.saturating_mul(UNIT)))
    }

    fn give_back(&mut self, entries: Range<u32>) {
        let units = entries.end.saturating_sub(entries.start).div_ceil(UNIT);
        let start = entries.start.saturating_sub(self.skipped) / UNIT;
        Bitmap(self.bitmap.words()).free(start..start.saturating_add(units));
        self.free_units = self.free_units.saturating_add(units);
    }

    /// Takes room for a list of `count` pages.
    pub(super) fn allocate(&mut self, count: u32, purpose: PbleUse) -> Result<PbleList<P>> {
        let none = Error::NoPbles {
            wanted: count,
            free: self.free_entries(),
        };
        if count == 0 {
            return Err(Error::Invalid {
                what: "a list of pages has at least one",
            });
        }
        if count > self.free_entries() {
            return Err(none);
        }
        if let Some(first) = self.take(count) {
            return Ok(PbleList {
                first,
                count,
                leaves: None,
            });
        }
        if purpose == PbleUse::Queue || count <= LEAF {
            return Err(none);
        }
        self.allocate_tree(count, none)
    }

    /// Takes a root and leaves of at most 512 entries.
    fn allocate_tree(&mut self, count: u32, none: Error) -> Result<PbleList<P>> {
        let roots = count.div_ceil(LEAF);
        let leaves = HostBuf::new(self.platform.clone(), roots as usize)?;
        let first = self.take(roots).ok_or(none)?;
        let mut left = count;
        for (n, word) in leaves.words().iter().enumerate() {
            let entries = left.min(LEAF);
            let Some(leaf) = self.take(entries) else {
                // Give back the root and the leaves before this one.
                for taken in leaves.words().iter().take(n) {
                    let leaf = taken.load(Ordering::Relaxed) as u32;
                    self.give_back(leaf..leaf.saturating_add(LEAF));
                }
                self.give_back(first..first.saturating_add(roots));
                return Err(none);
            };
            word.store(u64::from(leaf), Ordering::Relaxed);
            left = left.saturating_sub(entries);
        }
        Ok(PbleList {
            first,
            count,
            leaves: Some(leaves),
        })
    }

    /// Gives a list's room back.
    pub(super) fn free(&mut self, list: PbleList<P>) {
        for run in list.taken() {
            self.give_back(run);
        }
    }
}

/// The word of a PBLE that holds a page: bits below 12 are not address bits.
pub(super) fn page_entry(page: Iova) -> Result<u64> {
    crate::field::aligned("page of a list", page, PAGE_BYTES)
}
