//! Memory behind a mapping, and how the device accesses it.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use e810_hal::SharedBytes;
use e810_hal::bytes::OutOfRange;

use crate::program_memory::{self, AttachedMemory, NotThere};

/// Memory that the device reaches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// Of this process. It stays valid while it is mapped: accessed directly.
    Direct(SharedBytes),
    /// Of this process, whose owner may have taken it away: each access is a system call.
    Checked(SharedBytes),
    /// Of another process.
    Attached(Window),
}

/// Memory of another process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) memory: &'static AttachedMemory,
    pub(crate) address: u64,
    pub(crate) len: usize,
}

impl From<SharedBytes> for Target {
    fn from(bytes: SharedBytes) -> Self {
        Self::Direct(bytes)
    }
}

impl Target {
    pub(crate) fn address(&self) -> u64 {
        match self {
            Self::Direct(bytes) | Self::Checked(bytes) => bytes.address(),
            Self::Attached(window) => window.address,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Direct(bytes) | Self::Checked(bytes) => bytes.len(),
            Self::Attached(window) => window.len,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn window(&self, offset: usize, bytes: usize) -> Result<Self, OutOfRange> {
        Ok(match self {
            Self::Direct(all) => Self::Direct(all.window(offset, bytes)?),
            Self::Checked(all) => Self::Checked(all.window(offset, bytes)?),
            Self::Attached(all) => Self::Attached(all.window(offset, bytes)?),
        })
    }

    /// Copies bytes out, from the start.
    #[inline]
    pub(super) fn read(&self, into: &mut [u8]) -> Result<(), NotThere> {
        match self {
            // The windows of the callers have exactly this length.
            Self::Direct(bytes) => drop(bytes.read(0, into)),
            Self::Checked(bytes) => return program_memory::read(bytes, into),
            Self::Attached(window) => return window.memory.read(window.address, into),
        }
        Ok(())
    }

    /// Copies bytes in, from the start.
    #[inline]
    pub(super) fn write(&self, from: &[u8]) -> Result<(), NotThere> {
        match self {
            Self::Direct(bytes) => drop(bytes.write(0, from)),
            Self::Checked(bytes) => return program_memory::write(bytes, from),
            Self::Attached(window) => return window.memory.write(window.address, from),
        }
        Ok(())
    }

    /// Reads word `index` with acquire order. The memory must begin at a word and have that word.
    #[inline]
    pub(super) fn load(&self, index: usize) -> Result<u64, NotThere> {
        match self {
            Self::Direct(bytes) => Ok(u64::from_le(word(bytes, index).load(Ordering::Acquire))),
            Self::Checked(_) | Self::Attached(_) => self.load_checked(index),
        }
    }

    /// Writes word `index` of such memory, with release order if it is `last`.
    #[inline]
    pub(super) fn store(&self, index: usize, value: u64, last: bool) -> Result<(), NotThere> {
        let Self::Direct(bytes) = self else {
            return self.store_checked(index, value, last);
        };
        let order = if last {
            Ordering::Release
        } else {
            Ordering::Relaxed
        };
        word(bytes, index).store(value.to_le(), order);
        Ok(())
    }

    /// Queues lie in memory of `DmaAlloc`, which is not checked. A driver that puts a queue into
    /// mapped memory loses only the promise that a word is read as a whole: the kernel's copy keeps
    /// that for aligned words, but does not promise it.
    #[cold]
    fn load_checked(&self, index: usize) -> Result<u64, NotThere> {
        let mut word = [0; 8];
        let window = self.window(index * 8, 8).map_err(|_| NotThere)?;
        window.read(&mut word)?;
        fence(Ordering::Acquire);
        Ok(u64::from_le_bytes(word))
    }

    #[cold]
    fn store_checked(&self, index: usize, value: u64, last: bool) -> Result<(), NotThere> {
        let window = self.window(index * 8, 8).map_err(|_| NotThere)?;
        if last {
            fence(Ordering::Release);
        }
        window.write(&value.to_le_bytes())
    }
}

impl Window {
    /// Where `other` begins in this window, if that has all of it.
    pub(super) fn offset_of(&self, other: &Self) -> Option<usize> {
        let offset = usize::try_from(other.address.checked_sub(self.address)?).ok()?;
        let is_inside = offset <= self.len && other.len <= self.len - offset;
        (is_inside && std::ptr::eq(self.memory, other.memory)).then_some(offset)
    }

    fn window(&self, offset: usize, bytes: usize) -> Result<Self, OutOfRange> {
        let len = self.len;
        let end = offset.checked_add(bytes).filter(|end| *end <= len);
        end.ok_or(OutOfRange { offset, bytes, len })?;
        Ok(Self {
            address: self.address + offset as u64,
            len: bytes,
            ..*self
        })
    }
}

/// Word `index` of memory that is accessed directly.
#[inline]
fn word(bytes: &SharedBytes, index: usize) -> &AtomicU64 {
    debug_assert!(index * 8 + 8 <= bytes.len());
    let start: NonNull<AtomicU64> = bytes.as_ptr().cast();
    // SAFETY: `Iommu::aligned` checked that the window starts at a multiple of 8 and has that many
    // words; the memory behind a mapping stays valid while it is mapped, and is only accessed
    // atomically (contract of `SharedBytes`).
    unsafe { start.add(index).as_ref() }
}
