//! One allocation: raw memory that is poisoned when it is freed.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use e810_hal::SharedBytes;

/// Fill pattern of freed memory: unmapped when used as an address, invalid when used as a queue
/// entry.
pub(super) const POISON: u64 = 0xdead_beef_dead_beef;
/// Words poisoned at the start of a block. Poisoning whole blocks of 2 MiB would cost more than the
/// test that frees them.
const POISONED: usize = 512;

/// Alignment requested from the allocator. With a larger alignment the allocator zeroes the memory
/// itself instead of using zero pages: for the HMC that costs more than the rest of a bring-up.
const LAYOUT_ALIGN: usize = align_of::<u64>();

/// An allocation, owned by this value.
#[derive(Debug)]
pub(super) struct Block {
    base: NonNull<u8>,
    /// The first aligned byte.
    pub(super) start: NonNull<AtomicU64>,
    pub(super) words: usize,
    layout: Layout,
}

// SAFETY: a block is only accessed atomically, and any thread may free it.
unsafe impl Send for Block {}

impl Block {
    pub(super) fn new(words: usize, align: usize) -> Option<Self> {
        if words == 0 {
            return None;
        }
        let align = align.max(LAYOUT_ALIGN);
        let room = words.checked_mul(8)?.checked_add(align)?;
        let layout = Layout::from_size_align(room, LAYOUT_ALIGN).ok()?;
        // SAFETY: the layout has a size.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let start = base.map_addr(|base| base.saturating_add(base.get().wrapping_neg() % align));
        Some(Self {
            base,
            start: start.cast(),
            words,
            layout,
        })
    }

    pub(super) fn bytes(&self) -> SharedBytes {
        // SAFETY: the memory is valid until the block is dropped, which `DriverMemory` does only
        // after the range was unmapped and freed; there are no references to it other than
        // atomic ones.
        unsafe { SharedBytes::new(self.start.cast(), self.words * 8) }
    }

    fn poisoned_words(&self) -> &[AtomicU64] {
        // SAFETY: inside the allocation, atomic, alive as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words.min(POISONED)) }
    }

    /// Poisons the start of the block. The block was freed, so only the caller can reach it.
    pub(super) fn poison(&mut self) {
        for index in 0..self.words.min(POISONED) {
            // SAFETY: inside the allocation. Not atomic: the caller that freed the block promised
            // that no reference to it is left, the device lost it, and both happened
            // before.
            unsafe { self.start.as_ptr().cast::<u64>().add(index).write(POISON) };
        }
    }

    pub(super) fn is_untouched(&self) -> bool {
        let is_poison = |word: &AtomicU64| word.load(Ordering::Relaxed) == POISON;
        self.poisoned_words().iter().all(is_poison)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; the owner drops the block only when it is no
        // longer used.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}
