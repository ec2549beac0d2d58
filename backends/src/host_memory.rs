//! Words of the process's heap, for [`HostMem`](e810_hal::HostMem).

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use e810_hal::NoHostMemory;

fn layout(words: usize) -> Option<Layout> {
    // At least a word: an allocation of nothing would have no address.
    Layout::array::<AtomicU64>(words.max(1)).ok()
}

/// `words` zeroed words.
///
/// # Errors
/// [`NoHostMemory`].
pub fn alloc(words: usize) -> Result<NonNull<AtomicU64>, NoHostMemory> {
    let layout = layout(words).ok_or(NoHostMemory { words })?;
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory.cast()).ok_or(NoHostMemory { words })
}

/// Gives them back.
///
/// # Safety
/// They came from [`alloc`] with this number, were not given back before, and nothing refers to
/// them.
pub unsafe fn free(memory: NonNull<AtomicU64>, words: usize) {
    if let Some(layout) = layout(words) {
        // SAFETY: allocated with the layout of these words (the caller's promise).
        unsafe { dealloc(memory.as_ptr().cast(), layout) }
    }
}
