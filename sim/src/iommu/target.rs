//! Memory behind a mapping, and how the device accesses it.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use e810_hal::SharedBytes;
use e810_hal::bytes::OutOfRange;

use crate::program_memory::{self, NotThere};

/// Memory of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    bytes: SharedBytes,
    checked: bool,
}

impl From<SharedBytes> for Target {
    /// Memory that stays valid while it is mapped: accessed directly.
    fn from(bytes: SharedBytes) -> Self {
        let checked = false;
        Self { bytes, checked }
    }
}

impl Target {
    /// Memory that its owner may have taken away: each access is a system call.
    pub(crate) fn checked(bytes: SharedBytes) -> Self {
        let checked = true;
        Self { bytes, checked }
    }

    pub(crate) fn address(&self) -> u64 {
        self.bytes.address()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn window(&self, offset: usize, bytes: usize) -> Result<Self, OutOfRange> {
        let bytes = self.bytes.window(offset, bytes)?;
        Ok(Self { bytes, ..*self })
    }

    /// Copies bytes out, from the start.
    #[inline]
    pub(super) fn read(&self, into: &mut [u8]) -> Result<(), NotThere> {
        if self.checked {
            return program_memory::read(&self.bytes, into);
        }
        // The windows of the callers have exactly this length.
        let _ = self.bytes.read(0, into);
        Ok(())
    }

    /// Copies bytes in, from the start.
    #[inline]
    pub(super) fn write(&self, from: &[u8]) -> Result<(), NotThere> {
        if self.checked {
            return program_memory::write(&self.bytes, from);
        }
        let _ = self.bytes.write(0, from);
        Ok(())
    }

    /// Reads word `index` with acquire order. The memory must begin at a word and have that word.
    #[inline]
    pub(super) fn load(&self, index: usize) -> Result<u64, NotThere> {
        if self.checked {
            return self.load_checked(index);
        }
        Ok(u64::from_le(self.word(index).load(Ordering::Acquire)))
    }

    /// Writes word `index` of such memory, with release order if it is `last`.
    #[inline]
    pub(super) fn store(&self, index: usize, value: u64, last: bool) -> Result<(), NotThere> {
        if self.checked {
            return self.store_checked(index, value, last);
        }
        let order = if last {
            Ordering::Release
        } else {
            Ordering::Relaxed
        };
        self.word(index).store(value.to_le(), order);
        Ok(())
    }

    /// Queues lie in memory of `DmaAlloc`, which is not checked. A driver that puts a queue into
    /// mapped memory loses only the promise that a word is read as a whole: the kernel's copy keeps
    /// that for aligned words, but does not promise it.
    #[cold]
    fn load_checked(&self, index: usize) -> Result<u64, NotThere> {
        let mut word = [0; 8];
        let window = self.bytes.window(index * 8, 8).map_err(|_| NotThere)?;
        program_memory::read(&window, &mut word)?;
        fence(Ordering::Acquire);
        Ok(u64::from_le_bytes(word))
    }

    #[cold]
    fn store_checked(&self, index: usize, value: u64, last: bool) -> Result<(), NotThere> {
        let window = self.bytes.window(index * 8, 8).map_err(|_| NotThere)?;
        if last {
            fence(Ordering::Release);
        }
        program_memory::write(&window, &value.to_le_bytes())
    }

    /// Word `index` of unchecked memory.
    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index * 8 + 8 <= self.bytes.len());
        let start: NonNull<AtomicU64> = self.bytes.as_ptr().cast();
        // SAFETY: `Iommu::aligned` checked that the window starts at a multiple of 8 and has that
        // many words; the memory behind a mapping stays valid while it is mapped, and is only
        // accessed atomically (contract of `SharedBytes`).
        unsafe { start.add(index).as_ref() }
    }
}
