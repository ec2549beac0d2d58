//! Payload memory of the host: page-aligned, zeroed, freed when dropped.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use e810_hal::SharedBytes;

const PAGE: usize = 4096;

/// Memory that can be registered with a device.
///
/// The owner deregisters every region on it before dropping it; the windows
/// that [`Buffer::bytes`] gives out are not used after that.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    layout: Layout,
    len: usize,
}

// SAFETY: the memory belongs to this value alone and is only accessed through
// `SharedBytes`, which is atomic.
unsafe impl Send for Buffer {}

impl Buffer {
    /// `len` zeroed bytes (at least a page is allocated).
    ///
    /// # Errors
    /// When `len` cannot be a size of memory.
    pub fn new(len: usize) -> anyhow::Result<Self> {
        let layout = Layout::from_size_align(len.max(1).next_multiple_of(PAGE), PAGE)?;
        // SAFETY: the layout's size is at least one page.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(memory) else {
            handle_alloc_error(layout)
        };
        Ok(Self { start, layout, len })
    }

    /// A window on all of it.
    #[must_use]
    pub fn bytes(&self) -> SharedBytes {
        // SAFETY: the allocation is at least `len` bytes, no reference to it
        // is ever made, and the type's contract bounds the window's use.
        unsafe { SharedBytes::new(self.start, self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
