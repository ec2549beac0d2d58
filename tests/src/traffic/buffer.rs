//! Payload memory of a test: page-aligned, filled by pattern, and of the kind
//! that the platform can map.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ptr::NonNull;

use e810::{Clock as _, Platform, SharedBytes};
use e810_hal::{Ns, Vector};
use e810_sim::SimPlatform;
use e810_sim::middleware::Layered;

use super::Watched;
use crate::scenario::payload::keep;

pub(super) const PAGE: usize = 4096;

/// Memory that can be registered. It is there for good.
#[derive(Debug)]
pub struct Buffer(pub(super) SharedBytes);

/// What a test needs of a platform besides: payload memory that it can map, and its
/// interrupts.
pub trait Room: Platform {
    /// `bytes` zeroed bytes, rounded up to pages.
    fn room(&self, bytes: usize) -> Buffer;

    /// Takes the vectors that fired; if none has, waits for one, for `limit` at most.
    fn fired(&self, limit: Ns) -> Vec<Vector>;
}

impl Room for SimPlatform {
    fn room(&self, bytes: usize) -> Buffer {
        Buffer::new(bytes)
    }

    fn fired(&self, limit: Ns) -> Vec<Vector> {
        let mut fired = self.take_interrupts();
        if fired.is_empty() && limit > Ns(0) {
            // Waiting is what makes the simulator go on.
            self.relax();
            fired.extend(self.take_interrupts());
        }
        fired
    }
}

impl<P: Room> Room for Watched<P> {
    fn room(&self, bytes: usize) -> Buffer {
        self.platform().room(bytes)
    }

    fn fired(&self, limit: Ns) -> Vec<Vector> {
        self.platform().fired(limit)
    }
}

impl<P: Room, L> Room for Layered<P, L>
where
    Self: Platform,
{
    fn room(&self, bytes: usize) -> Buffer {
        self.platform().room(bytes)
    }

    fn fired(&self, limit: Ns) -> Vec<Vector> {
        self.platform().fired(limit)
    }
}

impl Buffer {
    /// `bytes` zeroed bytes of the heap, rounded up to pages.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.max(1).next_multiple_of(PAGE);
        // A page more than that: memory of a great alignment is written to be zeroed, where
        // much of any other is zero because nobody has touched it.
        let layout = Layout::array::<u64>((bytes + PAGE) / 8).expect("a size of memory");
        // SAFETY: the size is more than a page.
        let memory = unsafe { alloc_zeroed(layout) };
        let into = memory.addr().next_multiple_of(PAGE) - memory.addr();
        // SAFETY: at most a page from its start, and the memory is a page longer.
        let Some(start) = NonNull::new(memory).map(|memory| unsafe { memory.add(into) }) else {
            handle_alloc_error(layout)
        };
        // SAFETY: that many bytes, whole words, never given back; no reference to
        // them is ever made.
        Self(keep(unsafe { SharedBytes::new(start, bytes) }))
    }

    #[must_use]
    pub const fn bytes(&self) -> SharedBytes {
        self.0
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
