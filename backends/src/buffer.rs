//! Payload memory of the host: page-aligned and zeroed, in a file.

use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use e810_hal::SharedBytes;

use crate::counted::Counted;
use crate::memory::SharedMemory;
use crate::{Function, Transport};

/// Memory that can be registered with a device, also with one that another process serves.
///
/// The memory stays when this is dropped: windows on it may be anywhere, and a device that was not
/// notified keeps its access, as after an error between registration and deregistration.
/// [`Buffer::free`] frees it.
#[derive(Debug)]
pub struct Buffer {
    memory: ManuallyDrop<Arc<SharedMemory>>,
    len: usize,
}

impl Buffer {
    /// `len` zeroed bytes (at least a page is allocated).
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(len: usize) -> io::Result<Self> {
        Self::with_pages(len, false)
    }

    /// The same, in huge pages of 2 MiB when `huge`.
    ///
    /// # Errors
    /// When there is no memory, or no huge page left.
    pub fn with_pages(len: usize, huge: bool) -> io::Result<Self> {
        Ok(Self {
            memory: ManuallyDrop::new(Arc::new(SharedMemory::new(len, huge)?)),
            len,
        })
    }

    /// A window on all of it.
    #[must_use]
    pub fn bytes(&self) -> SharedBytes {
        // SAFETY: the mapping is at least `len` bytes and begins with a page, and no reference to
        // it is ever made. It is never unmapped, unless a caller of `free` promises that no window,
        // and no mapping made of one, is left.
        unsafe { SharedBytes::new(self.memory.start(), self.len) }
    }

    /// The memory itself.
    #[must_use]
    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.memory
    }

    /// Frees the memory.
    ///
    /// # Safety
    /// What [`Buffer::bytes`] returned is not used any more, and every region on it is
    /// deregistered, or was released after a reset: no mapping made of it is live
    /// ([`SharedBytes::new`]).
    pub unsafe fn free(self) {
        drop(ManuallyDrop::into_inner(self.memory));
    }
}

/// A platform that can allocate payload memory and map it.
pub trait Payload {
    /// `bytes` zeroed bytes that [`e810_hal::DmaMap`] of this platform can map.
    ///
    /// # Errors
    /// When there is no memory.
    fn payload(&self, bytes: usize) -> anyhow::Result<Buffer>;
}

impl<T: Transport> Payload for Function<T> {
    fn payload(&self, bytes: usize) -> anyhow::Result<Buffer> {
        Ok(self.buffer(bytes)?)
    }
}

impl<P: Payload> Payload for Counted<P> {
    fn payload(&self, bytes: usize) -> anyhow::Result<Buffer> {
        self.inner().payload(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_outlives_its_buffer() {
        let window = Buffer::new(1 << 20).unwrap().bytes();
        window.write(1 << 19, b"there").unwrap();
        let mut back = [0; 5];
        window.read(1 << 19, &mut back).unwrap();
        assert_eq!(&back, b"there");
    }

    #[test]
    fn what_is_freed_is_gone() {
        let buffer = Buffer::new(1).unwrap();
        let memory = Arc::downgrade(buffer.memory());
        // SAFETY: no window was made.
        unsafe { buffer.free() };
        assert_eq!(memory.strong_count(), 0);
    }
}
