//! Tracker space: blocks of the table's memory, given to QPs as they are opened.
//!
//! First fit over one bit a block. Only the control path allocates and frees.

use core::sync::atomic::Ordering;

use super::Atom;
use crate::track;

/// Trackers of a block.
pub(super) const TRACKERS: u32 = 32;
/// Words of a block.
pub(super) const BLOCK: u32 = TRACKERS * track::WORDS as u32;

const fn blocks(tracker_words: u32) -> u32 {
    tracker_words.div_ceil(BLOCK)
}

/// Rounded up to whole cache lines.
pub(super) const fn bitmap_words(tracker_words: u32) -> usize {
    blocks(tracker_words).div_ceil(64).next_multiple_of(8) as usize
}

/// Words of bitmap and blocks together.
pub(super) const fn words(tracker_words: u32) -> usize {
    let blocks = blocks(tracker_words) as usize;
    blocks
        .saturating_mul(BLOCK as usize)
        .saturating_add(bitmap_words(tracker_words))
}

/// A run of whole blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    first: u32,
    count: u32,
}

impl Extent {
    pub(super) const fn bits(self) -> u64 {
        (self.first as u64) << 32 | self.count as u64
    }

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self {
            first: (bits >> 32) as u32,
            count: bits as u32,
        }
    }
}

/// The allocator: where the bitmap is, and how many blocks there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space {
    bitmap: usize,
    data: usize,
    blocks: u32,
}

impl Space {
    pub(super) const fn new(base: usize, tracker_words: u32) -> Self {
        Self {
            bitmap: base,
            data: base.saturating_add(bitmap_words(tracker_words)),
            blocks: blocks(tracker_words),
        }
    }

    /// Index of an extent's first tracker among all.
    pub(super) const fn first_tracker(extent: Extent) -> u32 {
        extent.first.saturating_mul(TRACKERS)
    }

    /// Index of an extent's first word in the table's memory.
    const fn start(&self, extent: Extent) -> usize {
        self.data
            .saturating_add((extent.first as usize).saturating_mul(BLOCK as usize))
    }

    /// `words` contiguous words, zeroed; `None` when there is no such run.
    pub(super) fn alloc<A: Atom>(&self, atoms: &[A], words: u64) -> Option<Extent> {
        let count = u32::try_from(words.div_ceil(u64::from(BLOCK))).ok()?;
        let mut run = 0;
        let mut at = 0;
        while at < self.blocks && run < count {
            // Whole words at once: the first thousands of queue pairs fill many.
            if at % 64 == 0
                && let Some((word, _)) = self.word(atoms, at)
                && word.load(Ordering::Relaxed) == u64::MAX
            {
                run = 0;
                at += 64;
                continue;
            }
            run = if self.is_taken(atoms, at) { 0 } else { run + 1 };
            at += 1;
        }
        if run < count {
            return None;
        }
        let extent = Extent {
            first: at - count,
            count,
        };
        self.mark(atoms, extent, true);
        let data = atoms.get(self.start(extent)..)?;
        let words = (count as usize).saturating_mul(BLOCK as usize);
        for word in data.iter().take(words) {
            word.store(0, Ordering::Relaxed);
        }
        Some(extent)
    }

    pub(super) fn free<A: Atom>(&self, atoms: &[A], extent: Extent) {
        self.mark(atoms, extent, false);
    }

    fn word<'a, A>(&self, atoms: &'a [A], block: u32) -> Option<(&'a A, u64)> {
        let word = atoms.get(self.bitmap.saturating_add((block / 64) as usize))?;
        Some((word, 1u64 << (block % 64)))
    }

    fn is_taken<A: Atom>(&self, atoms: &[A], block: u32) -> bool {
        self.word(atoms, block)
            .is_none_or(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    fn mark<A: Atom>(&self, atoms: &[A], extent: Extent, taken: bool) {
        let end = extent.first.saturating_add(extent.count);
        for block in extent.first..end {
            if let Some((word, bit)) = self.word(atoms, block) {
                let was = word.load(Ordering::Relaxed);
                let now = if taken { was | bit } else { was & !bit };
                word.store(now, Ordering::Relaxed);
            }
        }
    }
}
