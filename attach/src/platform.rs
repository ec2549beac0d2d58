//! The platform of a program whose owner simulates the function: rings and doorbells lie in files
//! that both have.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use e810::ProgramLimits;
use e810_backends::host_memory;
use e810_backends::memory::{MappedMemory, SharedMemory};
use e810_hal::{
    Access, Barrier, Bus, Clock, DmaAlloc, DmaError, DmaLayout, DmaMap, DmaSegment, HostMem,
    InterruptVectors, Iova, Mapping, NoHostMemory, Ns, RawDma, RegOffset, SharedBytes, Vector,
};

use crate::conversation::Conversation;
use crate::doorbells::Doorbells;
use crate::lock;
use crate::messages::{Command, Lend, LendDoorbells, Operation as _, Refused, TakeBack, Wake};
use crate::owner::Doorbell;

/// See the [module documentation](self). A clone is another handle.
#[derive(Clone, Debug)]
pub struct AttachedPlatform(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    conversation: Arc<Conversation>,
    doorbells: Doorbells,
    /// By I/O address.
    lent: Mutex<BTreeMap<u64, MappedMemory>>,
    began: Instant,
}

impl AttachedPlatform {
    /// For a program that the owner has welcomed with these limits.
    pub(crate) fn new(
        conversation: Arc<Conversation>,
        limits: &ProgramLimits,
    ) -> Result<Self, Refused> {
        let memory = SharedMemory::new(Doorbells::bytes(limits), false);
        let no_file = |error| Refused::by_system("memory for doorbells", &error);
        let memory = memory.map_err(no_file)?;
        let file = memory.file().try_clone_to_owned().map_err(no_file)?;
        let doorbells = Doorbells::new(memory.without_file(), limits);
        let doorbells = doorbells.ok_or_else(Refused::no_memory)?;
        conversation.tell(LendDoorbells {}.command(), Some(file))?;
        Ok(Self(Arc::new(Inner {
            conversation,
            doorbells,
            lent: Mutex::default(),
            began: Instant::now(),
        })))
    }
}

impl Bus for AttachedPlatform {
    /// A program reads no register: as of a device that is not there.
    fn read32(&self, _: RegOffset) -> u32 {
        u32::MAX
    }

    /// Doorbells; nothing else is there.
    fn write32(&self, register: RegOffset, value: u32) {
        let Some(doorbell) = Doorbell::of(register.get(), value) else {
            return;
        };
        if self.0.doorbells.ring(doorbell) {
            // Without an owner nothing completes, and its end is told elsewhere.
            let _ = self.0.conversation.tell(Command::Wake(Wake {}), None);
        }
    }
}

// SAFETY: each allocation is a file of its own, zeroed, mapped here until `dma_free`, and at the
// owner, which gives the device access to all of it at the address that it answers, a multiple of
// the page size. `dma_free` has the owner take it back first.
unsafe impl DmaAlloc for AttachedPlatform {
    fn dma_alloc(&self, layout: DmaLayout) -> Result<RawDma, DmaError> {
        let none = DmaError::OutOfMemory {
            bytes: layout.bytes(),
            align: layout.align(),
        };
        let memory = SharedMemory::new(layout.bytes(), false).map_err(|_| none)?;
        let file = memory.file().try_clone_to_owned().map_err(|_| none)?;
        let lend = Lend {
            bytes: memory.len() as u64,
            // Nothing is registered there.
            address: None,
        };
        let memory = memory.without_file();
        let lent = self.0.conversation.ask_plainly(lend, Some(file));
        let iova = lent.map_err(|_| none)?;
        let raw = RawDma {
            iova: Iova(iova),
            words: memory.start().cast(),
            len: layout.bytes() / 8,
        };
        lock(&self.0.lent).insert(iova, memory);
        if !iova.is_multiple_of(layout.align() as u64) {
            // SAFETY: it was made just now, and nobody has it.
            unsafe { self.dma_free(raw) };
            return Err(none);
        }
        Ok(raw)
    }

    unsafe fn dma_free(&self, raw: RawDma) {
        let Some(memory) = lock(&self.0.lent).remove(&raw.iova.0) else {
            return;
        };
        let taken = self
            .0
            .conversation
            .ask_plainly(TakeBack { iova: raw.iova.0 }, None);
        // An owner that is gone has no device that writes there; it has mapped the file itself, so
        // it reaches no other memory of this process in any case.
        drop(taken);
        drop(memory);
    }
}

// SAFETY: nothing is mapped: the owner maps what the program registers.
unsafe impl DmaMap for AttachedPlatform {
    fn dma_map(&self, memory: SharedBytes, access: Access) -> Result<Mapping, DmaError> {
        Err(DmaError::NotAccessible {
            address: memory.address(),
            bytes: memory.len(),
            access,
        })
    }

    fn dma_segment(&self, _: &Mapping, _: u32) -> Option<DmaSegment> {
        None
    }

    fn dma_unmap(&self, _: Mapping) {}
}

// SAFETY: as the functions say.
unsafe impl HostMem for AttachedPlatform {
    fn host_alloc(&self, words: usize) -> Result<NonNull<AtomicU64>, NoHostMemory> {
        host_memory::alloc(words)
    }

    unsafe fn host_free(&self, memory: NonNull<AtomicU64>, words: usize) {
        // SAFETY: the caller's.
        unsafe { host_memory::free(memory, words) };
    }
}

impl Clock for AttachedPlatform {
    fn now(&self) -> Ns {
        let passed = self.0.began.elapsed().as_nanos();
        Ns(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    fn delay(&self, time: Ns) {
        thread::sleep(Duration::from_nanos(time.0));
    }

    fn relax(&self) {
        // The device is a program of this machine.
        thread::yield_now();
    }
}

impl Barrier for AttachedPlatform {}

impl InterruptVectors for AttachedPlatform {
    fn vector_count(&self) -> u16 {
        0
    }

    fn vector_alloc(&self) -> Option<Vector> {
        None
    }

    fn vector_free(&self, _: Vector) {}
}
