//! Payload memory of the host: page-aligned, zeroed, with a file behind it.

use std::io;
use std::sync::Arc;

use e810_hal::SharedBytes;
use e810_sim::SimPlatform;

use crate::backend::memory::SharedMemory;
use crate::backend::{Function, Transport};
use crate::counted::Counted;

/// Memory that can be registered with a device, also one that another process
/// serves.
///
/// The owner deregisters every region on it before dropping it; the windows
/// that [`Buffer::bytes`] gives out are not used after that.
#[derive(Debug)]
pub struct Buffer {
    memory: Arc<SharedMemory>,
    len: usize,
}

impl Buffer {
    /// `len` zeroed bytes (at least a page is allocated).
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(len: usize) -> io::Result<Self> {
        Ok(Self {
            memory: Arc::new(SharedMemory::new(len, false)?),
            len,
        })
    }

    /// A window on all of it.
    #[must_use]
    pub fn bytes(&self) -> SharedBytes {
        // SAFETY: the mapping is at least `len` bytes, no reference to it is
        // ever made, and the type's contract bounds the window's use.
        unsafe { SharedBytes::new(self.memory.start(), self.len) }
    }

    /// The memory itself.
    #[must_use]
    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.memory
    }
}

/// A platform that knows where payload it can map comes from.
pub trait Payload {
    /// `bytes` zeroed bytes that [`e810_hal::DmaMap`] of this platform can map.
    ///
    /// # Errors
    /// When there is no memory.
    fn payload(&self, bytes: usize) -> anyhow::Result<Buffer>;
}

impl Payload for SimPlatform {
    fn payload(&self, bytes: usize) -> anyhow::Result<Buffer> {
        // The simulator in this process reaches all of its memory.
        Ok(Buffer::new(bytes)?)
    }
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
