//! DMA memory in pieces: small allocations are cut from larger blocks. A queue pair has several, and
//! what maps a block (the kernel for a container, the owner of a shared function) has no room for a
//! block for each.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use e810_hal::{DmaLayout, Iova, RawDma};

use crate::iova::{IovaError, IovaSpace};
use crate::memory::PAGE;

/// Requests up to this size and alignment are cut from chunks.
const SMALL: usize = 64 << 10;
/// Pieces of a chunk are multiples of this, so that no two share a cache line.
const PIECE: u64 = 64;

/// Makes blocks.
pub trait Blocks {
    /// Memory that the device reaches until it is dropped.
    type Block: Mapped;
    /// Why there is none.
    type Error;
    /// Bytes and alignment of the blocks that are cut: at least 64 KiB, and a page.
    const CHUNK: (usize, usize);

    /// Fresh zeroed memory of at least `bytes`, aligned to `align` for the device.
    ///
    /// # Errors
    /// No memory, or it cannot be mapped for the device.
    fn make(&self, bytes: usize, align: usize) -> Result<Self::Block, Self::Error>;

    /// There is no place in a block.
    fn full(&self, cause: IovaError) -> Self::Error;
}

/// A block.
pub trait Mapped {
    /// Where the device has it.
    fn iova(&self) -> u64;

    /// `words` words from `offset` bytes on, aligned to 8 and valid while the block exists; `None`
    /// outside of it.
    fn words(&self, offset: u64, words: usize) -> Option<NonNull<AtomicU64>>;
}

/// `words` of `all` from `offset` bytes on, as [`Mapped::words`] returns them.
#[must_use]
pub fn part(all: &[AtomicU64], offset: u64, words: usize) -> Option<NonNull<AtomicU64>> {
    let first = usize::try_from(offset / 8).ok()?;
    let part = all.get(first..first.checked_add(words)?)?;
    Some(NonNull::from(part).cast())
}

#[derive(Debug)]
struct Chunk<M> {
    block: M,
    pieces: IovaSpace,
}

/// Blocks, handed out whole or in pieces.
#[derive(Debug)]
pub struct Pool<B: Blocks> {
    blocks: B,
    chunks: Vec<Chunk<B::Block>>,
    /// By IOVA.
    whole: BTreeMap<u64, B::Block>,
}

impl<B: Blocks> Pool<B> {
    /// An empty one.
    pub fn new(blocks: B) -> Self {
        Self {
            blocks,
            chunks: Vec::new(),
            whole: BTreeMap::new(),
        }
    }

    /// Zeroed memory that overlaps no other allocation, until [`Self::free`] or the end of the pool.
    ///
    /// # Errors
    /// Those of [`Blocks`].
    pub fn alloc(&mut self, layout: DmaLayout) -> Result<RawDma, B::Error> {
        if layout.bytes() <= SMALL && layout.align() <= SMALL {
            return self.piece(layout);
        }
        let block = self.blocks.make(layout.bytes(), layout.align().max(PAGE))?;
        let (iova, len) = (block.iova(), layout.bytes() / 8);
        let words = block.words(0, len);
        let raw = RawDma {
            iova: Iova(iova),
            words: words.ok_or_else(|| self.full(layout))?,
            len,
        };
        self.whole.insert(iova, block);
        Ok(raw)
    }

    fn piece(&mut self, layout: DmaLayout) -> Result<RawDma, B::Error> {
        let (bytes, align) = (layout.bytes() as u64, layout.align() as u64);
        let len = layout.bytes() / 8;
        let place = |chunk: &mut Chunk<B::Block>| {
            let iova = chunk.pieces.alloc(bytes, align).ok()?;
            Some((iova, chunk.block.words(iova - chunk.block.iova(), len)?))
        };
        let found = match self.chunks.iter_mut().find_map(place) {
            Some(found) => Some(found),
            None => {
                let mut chunk = self.chunk()?;
                let found = place(&mut chunk);
                self.chunks.push(chunk);
                found
            }
        };
        let (iova, words) = found.ok_or_else(|| self.full(layout))?;
        let raw = RawDma {
            iova: Iova(iova),
            words,
            len,
        };
        // This piece may have been in use before.
        for index in 0..raw.len {
            // SAFETY: they are in the block (`Mapped::words`), which the pool owns; nobody else has
            // this piece.
            unsafe { raw.words.add(index).as_ref() }.store(0, Ordering::Relaxed);
        }
        Ok(raw)
    }

    fn chunk(&self) -> Result<Chunk<B::Block>, B::Error> {
        let (bytes, align) = B::CHUNK;
        let block = self.blocks.make(bytes, align)?;
        let range = [(block.iova(), block.iova() + (bytes as u64 - 1))];
        let pieces = IovaSpace::new(&range, PIECE).map_err(|cause| self.blocks.full(cause))?;
        Ok(Chunk { block, pieces })
    }

    fn full(&self, layout: DmaLayout) -> B::Error {
        self.blocks.full(IovaError::Full {
            bytes: layout.bytes() as u64,
            align: layout.align() as u64,
        })
    }

    /// Frees an allocation; returns false if `raw` is none.
    pub fn free(&mut self, raw: RawDma) -> bool {
        if self.whole.remove(&raw.iova.0).is_some() {
            return true;
        }
        let holds = |chunk: &Chunk<B::Block>| {
            let first = chunk.block.iova();
            (first..first + B::CHUNK.0 as u64).contains(&raw.iova.0)
        };
        let Some(index) = self.chunks.iter().position(holds) else {
            return false;
        };
        let Some(chunk) = self.chunks.get_mut(index) else {
            return false;
        };
        let known = chunk.pieces.free(raw.iova.0).is_ok();
        // One chunk is kept, so that a queue that comes and goes maps nothing again.
        if chunk.pieces.is_unused() && self.chunks.len() > 1 {
            self.chunks.swap_remove(index);
        }
        known
    }
}
