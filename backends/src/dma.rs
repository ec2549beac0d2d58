//! DMA memory: mapped blocks with one owner.

use std::fmt;
use std::mem::forget;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use e810_hal::Access;

use super::error::BackendError;
use super::iova::{IovaError, IovaSpace};
use super::memory::{HUGE_PAGE, SharedMemory};
use super::pool::{Blocks, Mapped, part};
use super::transport::{DmaRegion, SharedAddresses, Transport};

/// Page sizes of IOMMUs above the smallest, the largest first.
const IOMMU_PAGES: [u64; 2] = [1 << 30, HUGE_PAGE as u64];

/// A program in another process gets this part of all addresses.
const RANGES: u64 = 128;
/// A power of two of bytes, at least and at most so many.
const LEAST_RANGE: u64 = 2 << 30;
const MOST_RANGE: u64 = 1 << 39;

/// A transport with its I/O addresses.
#[derive(Debug)]
pub(super) struct Domain<T> {
    pub(super) transport: T,
    space: SharedAddresses,
}

impl<T: Transport> Domain<T> {
    pub(super) fn new(transport: T) -> Result<Self, BackendError> {
        let space = match transport.addresses() {
            Some(shared) => shared,
            None => {
                let properties = transport.properties();
                let space = IovaSpace::new(&properties.iova_ranges, properties.page)
                    .map_err(|cause| iova(&transport, cause))?;
                Arc::new(Mutex::new(space))
            }
        };
        Ok(Self { transport, space })
    }

    /// Addresses for `bytes` of memory, aligned to `align`. `place` is where the memory lies in its
    /// large pages.
    ///
    /// An IOMMU can map with large pages if the memory has them and the addresses lie in them as
    /// the memory does. So the largest such page for which there is a place is tried first.
    fn take(&self, bytes: u64, align: u64, place: u64) -> Result<u64, IovaError> {
        let mut space = self.space();
        for page in IOMMU_PAGES {
            // With a larger alignment of its own it begins at a page anyway.
            let alike = align < page && bytes >= page && place.is_multiple_of(align);
            if alike && let Ok(address) = space.alloc_like(bytes, page, place) {
                return Ok(address);
            }
        }
        space.alloc(bytes, align)
    }

    /// Addresses for the memory of a program in another process; the first and the last.
    pub(super) fn take_range(&self) -> Result<(u64, u64), BackendError> {
        let ranges = &self.transport.properties().iova_ranges;
        let all = ranges.iter().map(|(first, last)| last - first).sum::<u64>();
        let bytes = 1 << (all / RANGES).clamp(LEAST_RANGE, MOST_RANGE).ilog2();
        let taken = self.space().alloc(bytes, IOMMU_PAGES[0]);
        let first = taken.map_err(|cause| iova(&self.transport, cause))?;
        Ok((first, first + (bytes - 1)))
    }

    /// Gives back the range that begins at `first`.
    pub(super) fn give_range(&self, first: u64) {
        let _ = self.space().free(first);
    }

    fn space(&self) -> MutexGuard<'_, IovaSpace> {
        // A panic elsewhere leaves the map of ranges consistent: each change to it is one call.
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn iova<T: Transport>(transport: &T, cause: IovaError) -> BackendError {
    BackendError::Iova {
        device: transport.name().to_owned(),
        cause,
    }
}

/// The memory of a block.
#[derive(Debug)]
pub(super) enum Memory {
    /// Memory of a file, which the block keeps alive.
    File(Arc<SharedMemory>),
    /// Memory of the caller, who keeps it alive until it is unmapped.
    Caller,
}

/// A range that is mapped for the device. A drop unmaps it for the device, then frees the memory,
/// then the addresses. If the device may still use it, memory and addresses are leaked.
pub(super) struct Block<T: Transport> {
    domain: Arc<Domain<T>>,
    memory: Memory,
    iova: u64,
    bytes: u64,
}

impl<T: Transport> Block<T> {
    /// Fresh zeroed memory of at least `bytes`, aligned to `align` for the device.
    pub(super) fn new(
        domain: &Arc<Domain<T>>,
        bytes: usize,
        align: usize,
        huge: bool,
    ) -> Result<Self, BackendError> {
        let memory = SharedMemory::new(bytes, huge).map_err(|cause| {
            let during = if huge {
                "allocating huge pages (raise vm.nr_hugepages)"
            } else {
                "allocating DMA memory"
            };
            BackendError::system(domain.transport.name(), during, &cause)
        })?;
        let (start, len) = (memory.start(), memory.len() as u64);
        let memory = Memory::File(Arc::new(memory));
        // SAFETY: the memory is held by the block that is being made.
        unsafe { Self::map(domain, memory, start, 0, len, align, Access::ReadWrite) }
    }

    /// Maps whole pages of existing memory: `bytes` at `start`, which is `offset` bytes into its
    /// file, if it has one. A large piece of it gets the same place in large pages for the device
    /// as it has in its file, or in this process.
    ///
    /// # Safety
    /// The memory is mapped at `start` in this process until the block is
    /// dropped.
    pub(super) unsafe fn map(
        domain: &Arc<Domain<T>>,
        memory: Memory,
        start: NonNull<u8>,
        offset: u64,
        bytes: u64,
        align: usize,
        access: Access,
    ) -> Result<Self, BackendError> {
        let transport = &domain.transport;
        // The large pages of a file start at its beginning, wherever it is mapped; other memory has
        // them by address.
        let place = match memory {
            Memory::File(_) => offset,
            Memory::Caller => start.addr().get() as u64,
        };
        let taken = domain.take(bytes, align as u64, place);
        let address = taken.map_err(|cause| iova(transport, cause))?;
        let region = DmaRegion {
            iova: address,
            bytes,
            address: start,
            file: match &memory {
                Memory::File(file) => Some((file.file(), offset)),
                Memory::Caller => None,
            },
            access,
        };
        // SAFETY: the block below unmaps before it frees the memory;
        // otherwise as the caller promises.
        let mapped = unsafe { transport.map(&region) };
        if let Err(error) = mapped {
            // Nothing was mapped: the addresses can be used again.
            let _ = domain.space().free(address);
            return Err(error);
        }
        Ok(Self {
            domain: Arc::clone(domain),
            memory,
            iova: address,
            bytes,
        })
    }
}

impl<T: Transport> Drop for Block<T> {
    fn drop(&mut self) {
        match self.domain.transport.unmap(self.iova, self.bytes) {
            // Only now may addresses and memory be used again.
            Ok(()) => {
                let _ = self.domain.space().free(self.iova);
            }
            Err(error) => {
                // A failed transport was reported already, and every block would report it again.
                let level = match self.domain.transport.failure() {
                    Some(_) => log::Level::Debug,
                    None => log::Level::Warn,
                };
                log::log!(
                    level,
                    "{} bytes at IOVA {:#x} are leaked, the device may still reach them: {error}",
                    self.bytes,
                    self.iova
                );
                if let Memory::File(memory) = &self.memory {
                    forget(Arc::clone(memory));
                }
            }
        }
    }
}

impl<T: Transport> fmt::Debug for Block<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("iova", &format_args!("{:#x}", self.iova))
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// What a [`Pool`] makes its blocks of.
#[derive(Clone, Debug)]
pub(super) struct Mapper<T> {
    pub(super) domain: Arc<Domain<T>>,
    /// Blocks that fill half of a huge page are made of those.
    pub(super) huge: bool,
}

impl<T: Transport> Blocks for Mapper<T> {
    type Block = Block<T>;
    type Error = BackendError;
    // A large page of the IOMMU, or of the CPU.
    const CHUNK: (usize, usize) = (HUGE_PAGE, HUGE_PAGE);

    fn make(&self, bytes: usize, align: usize) -> Result<Block<T>, BackendError> {
        let huge = self.huge && bytes >= HUGE_PAGE / 2;
        Block::new(&self.domain, bytes, align, huge)
    }

    fn full(&self, cause: IovaError) -> BackendError {
        iova(&self.domain.transport, cause)
    }
}

impl<T: Transport> Mapped for Block<T> {
    fn iova(&self) -> u64 {
        self.iova
    }

    fn words(&self, offset: u64, words: usize) -> Option<NonNull<AtomicU64>> {
        let Memory::File(memory) = &self.memory else {
            return None;
        };
        part(memory.words(), offset, words)
    }
}
