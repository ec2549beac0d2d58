//! DMA and host memory: leaked blocks, reclaimed when they are freed.

use std::boxed::Box;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::vec;

use crate::{Iova, RawDma};

/// A block of zeroed words, owned through its pointer.
struct Block {
    words: NonNull<AtomicU64>,
    len: usize,
}

impl Block {
    fn new(len: usize) -> Self {
        // Plain words, so that large blocks come zeroed from the system.
        let words = Box::leak(vec![0u64; len].into_boxed_slice());
        Self {
            words: NonNull::from(words).cast(),
            len,
        }
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: leaked by `new` with this length, reclaimed in `drop` only;
        // an `AtomicU64` has the layout of a `u64`.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.len) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let words = self.words.as_ptr().cast::<u64>();
        let slice = std::ptr::slice_from_raw_parts_mut(words, self.len);
        // SAFETY: leaked by `new` with this type and length, and dropped once.
        drop(unsafe { Box::from_raw(slice) });
    }
}

/// All memory of a [`FakePlatform`](super::FakePlatform).
pub struct FakeMemory {
    dma: BTreeMap<u64, Block>,
    host: BTreeMap<usize, Block>,
    next: u64,
    pub(super) made: usize,
    pub(super) fail_at: Option<usize>,
    pub(super) refuse_from: usize,
}

impl Default for FakeMemory {
    fn default() -> Self {
        Self {
            dma: BTreeMap::new(),
            host: BTreeMap::new(),
            next: 0x7_0000_0000,
            made: 0,
            fail_at: None,
            refuse_from: usize::MAX,
        }
    }
}

impl FakeMemory {
    fn fails(&mut self) -> bool {
        let number = self.made;
        self.made += 1;
        self.fail_at == Some(number)
    }

    pub(super) fn dma_alloc(&mut self, bytes: usize, align: usize) -> Option<RawDma> {
        if self.fails() || bytes >= self.refuse_from {
            return None;
        }
        let align = align as u64;
        // A gap after each block: what runs over it is found.
        let iova = self.next.div_ceil(align) * align;
        self.next = iova + bytes as u64 + 0x1000;
        let block = Block::new(bytes / 8);
        let raw = RawDma {
            iova: Iova(iova),
            words: block.words,
            len: block.len,
        };
        self.dma.insert(iova, block);
        Some(raw)
    }

    pub(super) fn dma_free(&mut self, raw: &RawDma) {
        self.dma.remove(&raw.iova.0).expect("freed twice");
    }

    pub(super) fn host_alloc(&mut self, words: usize) -> Option<NonNull<AtomicU64>> {
        if self.fails() {
            return None;
        }
        let block = Block::new(words);
        let pointer = block.words;
        self.host.insert(pointer.addr().get(), block);
        Some(pointer)
    }

    pub(super) fn host_free(&mut self, memory: NonNull<AtomicU64>) {
        let block = self.host.remove(&memory.addr().get());
        drop(block.expect("freed twice"));
    }

    pub(super) fn dma_alive(&self) -> usize {
        self.dma.len()
    }

    pub(super) fn host_alive(&self) -> usize {
        self.host.len()
    }

    fn cell(&self, iova: u64) -> Option<&AtomicU64> {
        let (base, block) = self.dma.range(..=iova).next_back()?;
        block.words().get(((iova - base) / 8) as usize)
    }

    /// The word at `iova`, if memory is there.
    #[must_use]
    pub fn load(&self, iova: u64) -> Option<u64> {
        Some(u64::from_le(self.cell(iova)?.load(Ordering::Acquire)))
    }

    /// Writes a word; whether memory is there.
    pub fn store(&self, iova: u64, value: u64) -> bool {
        let cell = self.cell(iova);
        if let Some(cell) = cell {
            cell.store(value.to_le(), Ordering::Release);
        }
        cell.is_some()
    }
}

impl core::fmt::Debug for FakeMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FakeMemory")
            .field("dma", &self.dma.len())
            .field("host", &self.host.len())
            .finish_non_exhaustive()
    }
}
