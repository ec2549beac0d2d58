//! All the memory there is: one static pool, in pages.

use core::cell::{Cell, UnsafeCell};
use core::ptr::NonNull;

use crate::pages::PageMap;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Words of the map: 32 MiB of pages.
const WORDS: usize = 128;
/// Bytes of the pool.
pub const BYTES: usize = WORDS * 64 * PAGE;
/// Alignment of the pool: the greatest that an allocation can have. The driver
/// asks for segments of 2 MiB.
const ALIGN: usize = 2 << 20;

#[repr(C, align(0x20_0000))]
struct Storage(UnsafeCell<[u8; BYTES]>);

// SAFETY: reached only through the one `Pool`, whose user answers for sharing.
unsafe impl Sync for Storage {}

static STORAGE: Storage = Storage(UnsafeCell::new([0; BYTES]));

/// Gives out pages of the pool.
#[derive(Debug)]
pub struct Pool {
    start: NonNull<u8>,
    map: PageMap<WORDS>,
    /// Bytes given out for good.
    kept: Cell<usize>,
}

impl Pool {
    /// Takes charge of the pool.
    ///
    /// # Safety
    /// Called once.
    #[must_use]
    pub unsafe fn new() -> Self {
        Self {
            start: NonNull::from(&STORAGE.0).cast(),
            map: PageMap::new(),
            kept: Cell::new(0),
        }
    }

    /// Where the pool is, and how many bytes it has.
    #[cfg(target_os = "hermit")]
    pub(crate) const fn extent(&self) -> (NonNull<u8>, usize) {
        (self.start, BYTES)
    }

    /// Zeroed memory of at least `bytes`, in whole pages, aligned to `align`
    /// bytes. It is nobody else's until it is given back.
    #[must_use]
    pub fn take(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        if align > ALIGN {
            return None;
        }
        let pages = bytes.div_ceil(PAGE);
        let first = self.map.take(pages, align.div_ceil(PAGE))?;
        // SAFETY: the map names pages of the pool.
        let memory = unsafe { self.start.add(first * PAGE) };
        // SAFETY: these pages are nobody's but the caller's from now on.
        unsafe { memory.write_bytes(0, pages * PAGE) };
        Some(memory)
    }

    /// As [`Pool::take`], for good: it never comes back.
    #[must_use]
    pub fn keep(&self, bytes: usize) -> Option<NonNull<u8>> {
        let memory = self.take(bytes, PAGE)?;
        self.kept
            .set(self.kept.get() + bytes.next_multiple_of(PAGE));
        Some(memory)
    }

    /// Takes memory back.
    ///
    /// # Safety
    /// `memory` came from [`Pool::take`] with as many `bytes`, was not given back
    /// before, and nobody, the device included, uses it any more.
    pub unsafe fn give(&self, memory: NonNull<u8>, bytes: usize) {
        let offset = memory.addr().get().wrapping_sub(self.start.addr().get());
        self.map.give(offset / PAGE, bytes.div_ceil(PAGE));
    }

    /// Bytes that are taken and will be given back.
    #[must_use]
    pub fn held(&self) -> usize {
        self.map.taken() * PAGE - self.kept.get()
    }
}
