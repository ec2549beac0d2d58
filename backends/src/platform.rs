//! The platform traits of a [`Function`], once for every transport.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use e810_hal::{
    Access, Barrier, Bus, Clock, DmaAlloc, DmaError, DmaLayout, DmaMap, DmaSegment, HostMem,
    Mapping, NoHostMemory, Ns, ProgramBytes, RawDma, RegOffset, SharedBytes, Vector,
};

use super::dma::{Block, Memory};
use super::error::BackendError;
use super::function::{Function, lock, run};
use super::iova::IovaError;
use super::pool::Mapped as _;
use super::transport::Transport;
use crate::host_memory;

impl<T: Transport> Bus for Function<T> {
    #[inline(always)]
    fn read32(&self, off: RegOffset) -> u32 {
        self.registers.read32(off)
    }

    #[inline(always)]
    fn write32(&self, off: RegOffset, value: u32) {
        self.registers.write32(off, value);
    }
}

// SAFETY: the pool returns disjoint pieces of blocks that it owns. Before they are handed out they
// are zeroed, aligned to at least 8, and mapped for reading and writing; only atomics touch them.
// `dma_free` unmaps a whole block before its memory is freed, and hands a piece to nobody before it
// is zeroed again. The device can still access a freed piece of a chunk, as it can a freed part of
// a page on any IOMMU: the caller of `free` has stopped the device (contract).
unsafe impl<T: Transport> DmaAlloc for Function<T> {
    fn dma_alloc(&self, layout: DmaLayout) -> Result<RawDma, DmaError> {
        let given = lock(&self.inner.pool).alloc(layout);
        given.map_err(|error| {
            log::error!("no DMA memory: {error}");
            match error {
                BackendError::NotMapped { cause, .. } => cause,
                _ => DmaError::OutOfMemory {
                    bytes: layout.bytes(),
                    align: layout.align(),
                },
            }
        })
    }

    unsafe fn dma_free(&self, raw: RawDma) {
        if !lock(&self.inner.pool).free(raw) {
            log::error!("{} is not a live DMA allocation: not freed", raw.iova);
        }
    }
}

impl<T: Transport> Function<T> {
    /// Maps the pages that hold `memory`; returns the block and the segment.
    fn map_pages(
        &self,
        memory: SharedBytes,
        access: Access,
    ) -> Result<(Block<T>, DmaSegment), DmaError> {
        let domain = &self.inner.domain;
        let properties = domain.transport.properties();
        let (address, bytes) = (memory.address(), memory.len());
        let bad_range = DmaError::BadRange { address, bytes };
        let in_page = address % properties.page;
        let pages = (in_page + bytes as u64).checked_next_multiple_of(properties.page);
        let pages = pages.ok_or(bad_range)?;
        let (held, offset) = match self.payload_at(address, bytes) {
            Some(file) => {
                let offset = address - in_page - file.address();
                (Memory::File(file), offset)
            }
            None if properties.maps_any_memory => (Memory::Caller, 0),
            None => return Err(DmaError::NoFile { address, bytes }),
        };
        let start = memory.as_ptr().as_ptr().wrapping_byte_sub(in_page as usize);
        let start = NonNull::new(start).ok_or(bad_range)?;
        let align = properties.page as usize;
        // Each mapping has its own I/O addresses, also if the memory is mapped already. One mapping
        // for all users of the same addresses would outlive the memory there (the kernel keeps the
        // pages, the process maps others), and a later registration means what is there then.
        // SAFETY: a file's memory is held by the block; the caller's is valid and
        // lent until it is unmapped (contract of `SharedBytes::new`), and with it
        // the rest of its first and last page, which no process gives away alone.
        let block = unsafe { Block::map(domain, held, start, offset, pages, align, access) };
        let block = block.map_err(|error| not_mapped(&error, memory, access))?;
        let run = run(block.iova(), in_page, bytes as u64);
        Ok((block, run))
    }
}

impl<T: Transport> Function<T> {
    fn keep(&self, block: Option<Block<T>>, run: DmaSegment) -> Mapping {
        let mut mappings = lock(&self.inner.mappings);
        let id = mappings.next;
        mappings.next += 1;
        mappings.live.insert(id, (block, run));
        Mapping { id, segments: 1 }
    }
}

/// Why `memory` was not mapped, in terms of what the caller named, which is not whole pages. If the
/// cause has no error of its own, it is in the log.
fn not_mapped(error: &BackendError, memory: SharedBytes, access: Access) -> DmaError {
    let (address, bytes) = (memory.address(), memory.len());
    match error {
        BackendError::NotMapped {
            cause: DmaError::NotAccessible { .. },
            ..
        } => DmaError::NotAccessible {
            address,
            bytes,
            access,
        },
        BackendError::NotMapped { cause, .. } => *cause,
        BackendError::Iova {
            cause: IovaError::Full { .. },
            ..
        } => DmaError::NoAddresses { bytes },
        error => {
            log::error!("{bytes} bytes were not mapped: {error}");
            DmaError::Refused { address, bytes }
        }
    }
}

// SAFETY: one segment that covers the bytes. A program of another process has mapped its memory
// itself, at addresses that only it has. The block behind any other segment maps the pages with the
// requested access, as the contract allows, and `dma_unmap` unmaps them before it returns. If the
// kernel refuses that, which it does for no mapping that it made, payload with a file is kept for
// good; memory of the caller stays within the device's reach, as the log says.
unsafe impl<T: Transport> DmaMap for Function<T> {
    fn dma_map(&self, memory: SharedBytes, access: Access) -> Result<Mapping, DmaError> {
        let (address, bytes) = (memory.address(), memory.len());
        if bytes == 0 || address.checked_add(bytes as u64).is_none() {
            return Err(DmaError::BadRange { address, bytes });
        }
        let (block, run) = self.map_pages(memory, access)?;
        Ok(self.keep(Some(block), run))
    }

    fn dma_map_program(&self, memory: ProgramBytes, access: Access) -> Result<Mapping, DmaError> {
        let ProgramBytes {
            program,
            address,
            len,
        } = memory;
        let range = lock(&self.inner.programs).get(&program).copied();
        let end = address.checked_add((len as u64).saturating_sub(1));
        match (range, end) {
            (Some((first, last)), Some(end)) if len > 0 && first <= address && end <= last => {
                Ok(self.keep(None, run(address, 0, len as u64)))
            }
            _ => Err(DmaError::NotAccessible {
                address,
                bytes: len,
                access,
            }),
        }
    }

    fn dma_segment(&self, mapping: &Mapping, index: u32) -> Option<DmaSegment> {
        let mappings = lock(&self.inner.mappings);
        let (_, run) = mappings.live.get(&mapping.id)?;
        (index == 0).then_some(*run)
    }

    fn dma_unmap(&self, mapping: Mapping) {
        let gone = lock(&self.inner.mappings).live.remove(&mapping.id);
        // Outside the lock: unmapping may take time.
        drop(gone);
    }
}

// SAFETY: fresh zeroed memory of the process's heap, laid out as words.
unsafe impl<T: Transport> HostMem for Function<T> {
    fn host_alloc(&self, words: usize) -> Result<NonNull<AtomicU64>, NoHostMemory> {
        host_memory::alloc(words)
    }

    unsafe fn host_free(&self, memory: NonNull<AtomicU64>, words: usize) {
        // SAFETY: the caller's.
        unsafe { host_memory::free(memory, words) };
    }
}

/// The inaccuracy of sleeping is about this much; shorter delays spin.
const SLEEP: Duration = Duration::from_micros(100);
/// Empty turns with a spin hint before the thread yields: the other process may need this very CPU.
const SPINS: u32 = 16;

impl<T: Transport> Clock for Function<T> {
    fn now(&self) -> Ns {
        let passed = self.inner.start.elapsed().as_nanos();
        Ns(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    fn delay(&self, time: Ns) {
        let start = Instant::now();
        let time = Duration::from_nanos(time.0);
        if time >= SLEEP {
            std::thread::sleep(time);
        }
        // An emulated device on this machine needs a processor too.
        while start.elapsed() < time {
            std::thread::yield_now();
        }
    }

    fn relax(&self) {
        std::hint::spin_loop();
        // Two threads may count the same turn: then one of them yields a turn later.
        let turns = self.inner.turns.load(Ordering::Relaxed);
        let last = turns >= SPINS;
        self.inner
            .turns
            .store(if last { 0 } else { turns + 1 }, Ordering::Relaxed);
        if last {
            std::thread::yield_now();
        }
    }
}

impl<T: Transport> Barrier for Function<T> {}

impl<T: Transport> e810_hal::InterruptVectors for Function<T> {
    fn vector_count(&self) -> u16 {
        self.transport().properties().vectors
    }

    fn vector_alloc(&self) -> Option<Vector> {
        let transport = self.transport();
        let mut vectors = lock(&self.inner.vectors);
        match vectors.take(transport, &self.inner.waiter) {
            Ok(vector) => vector,
            Err(error) => {
                log::error!("no further vector: {error}");
                None
            }
        }
    }

    fn vector_free(&self, vector: Vector) {
        let transport = self.transport();
        let mut vectors = lock(&self.inner.vectors);
        match vectors.give_back(vector, transport, &self.inner.waiter) {
            Ok(true) => {}
            Ok(false) => log::error!("{vector} was given back but not taken"),
            Err(error) => log::warn!("{vector} stays connected: {error}"),
        }
    }

    fn vector_affinity(&self, vector: Vector, cpu: u32) {
        let transport = self.transport();
        lock(&self.inner.vectors).send_to(vector, cpu, transport);
    }
}
