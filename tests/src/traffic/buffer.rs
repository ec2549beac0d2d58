//! Payload memory of a test: page-aligned, filled by pattern.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use e810::SharedBytes;

const PAGE: usize = 4096;

/// Memory that can be registered. The owner takes every region on it away
/// before dropping it.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    layout: Layout,
}

impl Buffer {
    /// `bytes` zeroed bytes, rounded up to pages.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.max(1).next_multiple_of(PAGE), PAGE)
            .expect("a size of memory");
        // SAFETY: the size is at least one page.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(memory) else {
            handle_alloc_error(layout)
        };
        Self { start, layout }
    }

    /// All of it.
    #[must_use]
    pub fn bytes(&self) -> SharedBytes {
        // SAFETY: the allocation has that many bytes and no reference to it is
        // ever made; windows are not used after the buffer is dropped.
        unsafe { SharedBytes::new(self.start, self.layout.size()) }
    }

    /// Copies bytes in.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.bytes()
            .write(offset, bytes)
            .expect("inside the buffer");
    }

    /// Copies bytes out.
    #[must_use]
    pub fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        self.bytes()
            .read(offset, &mut out)
            .expect("inside the buffer");
        out
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Bytes that differ for each seed and repeat at no power of two.
#[must_use]
pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(bytes);
    out
}
