//! Memory that the driver of one function allocates or maps, and the part of it that the device can
//! reach.
//!
//! Allocations are held by raw pointer, never by `Box`, because the driver keeps its own pointers
//! into the same memory. A freed block is first unmapped from the device, then poisoned, then kept
//! in quarantine for a while, so that a late access is detected instead of hitting reused memory.

mod block;
mod mapping;

use crate::findings::{Kind, kind};
use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use e810_hal::{Access, DmaError, DmaLayout, DmaSegment, Iova, NoHostMemory, RawDma};

use crate::iommu::{Iommu, PAGE};
use crate::program_memory::AttachedMemory;
use crate::rng::Rng;

use block::Block;
pub use mapping::DmaSegmentation;

/// Allocations that a test can make fail, see
/// [`Sim::fail_allocation`](crate::Sim::fail_allocation).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Allocation {
    /// `DmaAlloc::dma_alloc`.
    Dma,
    /// `HostMem::host_alloc`.
    Host,
    /// `DmaMap::dma_map`.
    Map,
}

/// Memory that a driver holds, and counts of its requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MemoryCounts {
    /// DMA allocations not freed.
    pub dma_blocks: u64,
    pub dma_bytes: u64,
    /// Host allocations not freed.
    pub host_blocks: u64,
    pub host_bytes: u64,
    /// Live mappings of the driver's own memory.
    pub mappings: u64,
    pub mapped_bytes: u64,
    /// DMA allocation requests so far, including those that failed.
    pub dma_requests: u64,
    /// Host allocation requests so far, including those that failed.
    pub host_requests: u64,
    /// Mapping requests so far, including those that failed.
    pub map_requests: u64,
}

impl MemoryCounts {
    /// Whether everything has been freed and unmapped.
    #[must_use]
    pub const fn nothing_held(&self) -> bool {
        self.dma_blocks == 0 && self.host_blocks == 0 && self.mappings == 0
    }
}

/// Freed blocks kept in quarantine.
const QUARANTINE: usize = 32;

/// Blocks that were not freed when their simulator ended. `DmaAlloc` promises that memory is valid
/// until `dma_free`, whatever happens to the platform, so the blocks stay allocated. They remain
/// reachable, so a leak checker does not report them. (A driver that loses its device leaves its
/// memory behind on purpose.)
static LEAKED_BLOCKS: Mutex<Vec<Block>> = Mutex::new(Vec::new());

/// Where findings about memory go: kind and text.
pub(crate) type FindingSink<'a> = &'a mut dyn FnMut(Kind, String);

/// Memory of one function.
#[derive(Debug)]
pub(crate) struct DriverMemory {
    pub(crate) iommu: Iommu,
    /// DMA blocks by IOVA.
    blocks: BTreeMap<u64, Block>,
    /// Host blocks by virtual address.
    host: BTreeMap<usize, Block>,
    mappings: BTreeMap<u64, Vec<DmaSegment>>,
    next_mapping: u64,
    /// Attached programs, whose memory can be mapped.
    programs: BTreeMap<u64, &'static AttachedMemory>,
    last_program: u64,
    /// One of them has lent all of its memory.
    has_far_programs: bool,
    quarantine: VecDeque<Block>,
    segments: DmaSegmentation,
    /// Memory mapped from now on may be gone when it is accessed.
    checked_access: bool,
    rng: Rng,
    counts: MemoryCounts,
    /// Requests left until an injected failure, by [`Allocation`].
    fail_in: [Option<u64>; 3],
}

impl DriverMemory {
    pub(crate) fn new(segments: DmaSegmentation, rng: &Rng) -> Self {
        Self {
            iommu: Iommu::new(rng.fork("iova")),
            blocks: BTreeMap::new(),
            host: BTreeMap::new(),
            mappings: BTreeMap::new(),
            next_mapping: 1,
            programs: BTreeMap::new(),
            last_program: 0,
            has_far_programs: false,
            quarantine: VecDeque::new(),
            segments,
            checked_access: false,
            rng: rng.fork("runs"),
            counts: MemoryCounts::default(),
            fail_in: [None; 3],
        }
    }

    /// Whether each access to memory of `DmaMap` is checked.
    pub(crate) fn check_access(&mut self, on: bool) {
        self.checked_access = on;
    }

    pub(crate) fn checks_access(&self) -> bool {
        self.checked_access
    }

    pub(crate) fn counts(&self) -> MemoryCounts {
        self.counts
    }

    /// The `nth` request from now (the next one is 1) fails, once; 0 cancels.
    pub(crate) fn fail(&mut self, what: Allocation, nth: u64) {
        if let Some(slot) = self.fail_in.get_mut(what as usize) {
            *slot = nth.checked_sub(1);
        }
    }

    fn fails_now(&mut self, what: Allocation) -> bool {
        let Some(slot) = self.fail_in.get_mut(what as usize) else {
            return false;
        };
        let now = *slot == Some(0);
        *slot = slot.and_then(|left| left.checked_sub(1));
        now
    }

    pub(crate) fn dma_alloc(&mut self, layout: DmaLayout) -> Result<RawDma, DmaError> {
        let no_memory = DmaError::OutOfMemory {
            bytes: layout.bytes(),
            align: layout.align(),
        };
        self.counts.dma_requests += 1;
        if self.fails_now(Allocation::Dma) {
            return Err(no_memory);
        }
        let words = layout.bytes() / 8;
        // The requested alignment applies to the IOVA; the virtual address is aligned to a page at
        // most.
        let align = layout.align().min(PAGE as usize);
        let block = Block::new(words, align).ok_or(no_memory)?;
        let iova = self
            .iommu
            .place_aligned(layout.bytes() as u64, layout.align() as u64)
            .filter(|&iova| self.iommu.map(iova, block.bytes(), Access::ReadWrite))
            .ok_or(no_memory)?;
        let raw = RawDma {
            iova: Iova(iova),
            words: block.start,
            len: words,
        };
        self.blocks.insert(iova, block);
        self.counts.dma_blocks += 1;
        self.counts.dma_bytes += layout.bytes() as u64;
        Ok(raw)
    }

    pub(crate) fn dma_free(&mut self, raw: RawDma, found: FindingSink<'_>) {
        let known = self
            .blocks
            .get(&raw.iova.0)
            .is_some_and(|block| block.start == raw.words && block.words == raw.len);
        if !known {
            found(
                kind::BAD_FREE,
                format!(
                    "{} bytes at {} are no live DMA allocation",
                    raw.len * 8,
                    raw.iova
                ),
            );
            return;
        }
        self.iommu.unmap(raw.iova.0);
        if let Some(block) = self.blocks.remove(&raw.iova.0) {
            self.counts.dma_blocks -= 1;
            self.counts.dma_bytes -= (block.words * 8) as u64;
            self.quarantine(block, found);
        }
    }

    pub(crate) fn host_alloc(&mut self, words: usize) -> Result<NonNull<AtomicU64>, NoHostMemory> {
        self.counts.host_requests += 1;
        if self.fails_now(Allocation::Host) {
            return Err(NoHostMemory { words });
        }
        // A block of zero words still needs an address of its own.
        let block = Block::new(words.max(1), 8).ok_or(NoHostMemory { words })?;
        let start = block.start;
        self.counts.host_blocks += 1;
        self.counts.host_bytes += (block.words * 8) as u64;
        self.host.insert(start.addr().get(), block);
        Ok(start)
    }

    pub(crate) fn host_free(
        &mut self,
        memory: NonNull<AtomicU64>,
        words: usize,
        found: FindingSink<'_>,
    ) {
        let address = memory.addr().get();
        let known = self
            .host
            .get(&address)
            .is_some_and(|block| block.words == words.max(1));
        if !known {
            found(
                kind::BAD_FREE,
                format!("{words} words at {address:#x} are no live host allocation"),
            );
            return;
        }
        if let Some(block) = self.host.remove(&address) {
            self.counts.host_blocks -= 1;
            self.counts.host_bytes -= (block.words * 8) as u64;
            self.quarantine(block, found);
        }
    }

    /// Poisons a freed block and keeps it for a while.
    fn quarantine(&mut self, mut block: Block, found: FindingSink<'_>) {
        block.poison();
        self.quarantine.push_back(block);
        while self.quarantine.len() > QUARANTINE {
            if let Some(oldest) = self.quarantine.pop_front() {
                check_untouched(&oldest, found);
            }
        }
    }

    /// Checks all blocks in quarantine; each damaged block is reported once.
    pub(crate) fn check_freed(&mut self, found: FindingSink<'_>) {
        self.quarantine
            .retain(|block| check_untouched(block, found));
    }
}

impl Drop for DriverMemory {
    fn drop(&mut self) {
        let mut left = LEAKED_BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        left.extend(std::mem::take(&mut self.blocks).into_values());
        left.extend(std::mem::take(&mut self.host).into_values());
    }
}

/// Reports a freed block that was written to; returns true if it was not.
fn check_untouched(block: &Block, found: FindingSink<'_>) -> bool {
    let untouched = block.is_untouched();
    if !untouched {
        found(
            kind::USE_AFTER_FREE,
            format!(
                "{} bytes at {:#x} were written after they had been given back",
                block.words * 8,
                block.start.addr()
            ),
        );
    }
    untouched
}

#[cfg(test)]
mod tests;
