//! Allocator of backing memory: a bounded number of DMA allocations, cut into
//! segments and pages.
//!
//! The allocations are kept in a table of fixed size. Their size grows with the layout and with
//! their number, so that the table is large enough. Nothing is freed before the end: the device
//! may use a page as long as its segment is valid.

use core::sync::atomic::AtomicU64;

use e810_hal::{DmaBuf, DmaLayout, DmaWords, HostList, Iova, Platform};

use super::layout::{PAGE_BYTES, PAGES_PER_SEGMENT, SEGMENT_BYTES};
use crate::error::{Error, Result};

/// Allocations there can be.
pub(super) const MAX_SLABS: usize = 128;
/// Pages allocated at a time if only a few are needed later.
const FEW_PAGES: u32 = 16;
/// After this many allocations, twice as many pages are allocated at a time. The table then has
/// room for more than any layout has, and at most an eighth of the allocated memory is unused.
const DOUBLED_AFTER: u32 = 8;

/// Upper limit of the bytes allocated with the first page that is asked for singly, after
/// `allocated` bytes.
pub(super) const fn ahead(allocated: u64) -> u64 {
    (FEW_PAGES as u64)
        .saturating_mul(PAGE_BYTES)
        .saturating_add(allocated / 8)
}

/// One allocation, cut from the front.
#[derive(Debug)]
struct Slab<P: Platform> {
    memory: DmaBuf<P>,
    /// Bytes cut off so far.
    used: u64,
    /// Bytes of a piece: a segment or a page.
    piece: u64,
}

/// All allocations of an HMC.
#[derive(Debug)]
pub(super) struct Store<P: Platform> {
    platform: P,
    slabs: HostList<P, Slab<P>>,
    /// Greatest number of segments allocated at a time.
    segment_group: u32,
}

impl<P: Platform> Store<P> {
    /// 64-bit words of the table.
    pub(super) const HOST_WORDS: usize = MAX_SLABS * size_of::<Slab<P>>().div_ceil(8);

    /// A store for a layout of `segments`.
    ///
    /// As segments, all of them fit into half of the table; the other half is for what does not
    /// come in whole groups, and for pages.
    ///
    /// # Errors
    /// [`Error::HostMemory`].
    pub(super) fn new(platform: P, segments: u32) -> Result<Self> {
        let half = (MAX_SLABS / 2) as u32;
        Ok(Self {
            slabs: HostList::new(platform.clone(), MAX_SLABS)?,
            platform,
            segment_group: segments.div_ceil(half).max(1),
        })
    }

    /// 2 MiB, aligned to 2 MiB (the format needs 4 KiB; more is NITS (segment_alignment), and
    /// existing drivers normally have it). `wanted` is how many the caller will ask for from now
    /// on.
    pub(super) fn segment(&mut self, wanted: u32) -> Result<Iova> {
        if let Some(iova) = self.cut(SEGMENT_BYTES) {
            return Ok(iova);
        }
        // `segment_group` is at least 1; `clamp` would be able to panic.
        let group = wanted.min(self.segment_group).max(1);
        if let Err(error) = self.grow(SEGMENT_BYTES, group) {
            // Memory is fragmented: a single segment may still be available.
            if group == 1 {
                return Err(error);
            }
            self.grow(SEGMENT_BYTES, 1)?;
        }
        self.cut(SEGMENT_BYTES)
            .ok_or(Error::Allocations { limit: MAX_SLABS })
    }

    /// A page. `wanted` is how many the caller knows it will need; 0 when it
    /// does not know.
    pub(super) fn page(&mut self, wanted: u32) -> Result<Iova> {
        if let Some(iova) = self.cut(PAGE_BYTES) {
            return Ok(iova);
        }
        let doublings = self.slabs.len() as u32 / DOUBLED_AFTER;
        let group = FEW_PAGES.wrapping_shl(doublings);
        let count = match wanted {
            0 => group,
            known => known.min(group.max(PAGES_PER_SEGMENT)),
        };
        if let Err(error) = self.grow(PAGE_BYTES, count) {
            // Memory is fragmented: fewer at a time may still be available.
            if count <= PAGES_PER_SEGMENT {
                return Err(error);
            }
            self.grow(PAGE_BYTES, PAGES_PER_SEGMENT)?;
        }
        self.cut(PAGE_BYTES)
            .ok_or(Error::Allocations { limit: MAX_SLABS })
    }

    /// A piece of an allocation that has one left.
    fn cut(&mut self, piece: u64) -> Option<Iova> {
        let fits = |slab: &&mut Slab<P>| {
            let left = (slab.memory.bytes() as u64).saturating_sub(slab.used);
            slab.piece == piece && left >= piece
        };
        let slab = self.slabs.iter_mut().find(fits)?;
        let iova = slab.memory.iova().offset(slab.used)?;
        slab.used = slab.used.saturating_add(piece);
        Some(iova)
    }

    /// Allocates `count` pieces more.
    fn grow(&mut self, piece: u64, count: u32) -> Result<()> {
        let full = Error::Allocations { limit: MAX_SLABS };
        if self.slabs.is_full() {
            return Err(full);
        }
        let bytes = piece.saturating_mul(u64::from(count));
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // Pieces are powers of two.
        let layout = DmaLayout::new(bytes, piece as usize);
        let slab = Slab {
            memory: DmaBuf::new(self.platform.clone(), layout)?,
            used: 0,
            piece,
        };
        self.slabs.push(slab).map_err(|slab| {
            slab.memory.release();
            full
        })
    }

    /// The words from `iova` on, to the end of its allocation.
    pub(super) fn words(&self, iova: Iova) -> Result<&[AtomicU64]> {
        self.slabs
            .iter()
            .find_map(|slab| {
                let from = iova.0.checked_sub(slab.memory.iova().0)?;
                let words = slab.memory.words().get((from / 8) as usize..)?;
                (!words.is_empty()).then_some(words)
            })
            .ok_or(Error::NoBacking { address: iova })
    }

    /// The 512 words of a page.
    pub(super) fn page_words(&self, iova: Iova) -> Result<&[AtomicU64]> {
        let words = self.words(iova)?;
        Ok(words.get(..PAGE_WORDS).unwrap_or(words))
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> u64 {
        self.slabs
            .iter()
            .map(|slab| slab.memory.bytes() as u64)
            .fold(0, u64::saturating_add)
    }

    /// Frees everything. The device must no longer use any of it.
    pub(super) fn release(mut self) {
        while let Some(slab) = self.slabs.pop() {
            slab.memory.release();
        }
    }
}

/// Words of a page.
const PAGE_WORDS: usize = (PAGE_BYTES / 8) as usize;
