//! The platform of a program whose owner simulates the function: rings and doorbells lie in files
//! that both have.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use e810::ProgramLimits;
use e810_backends::host_memory;
use e810_backends::iova::IovaError;
use e810_backends::memory::{MappedMemory, PAGE, SharedMemory};
use e810_backends::pool::{Blocks, Mapped, Pool, part};
use e810_hal::{
    Access, Barrier, Bus, Clock, DmaAlloc, DmaError, DmaLayout, DmaMap, DmaSegment, HostMem,
    InterruptVectors, Mapping, NoHostMemory, Ns, RawDma, RegOffset, SharedBytes, Vector,
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
    /// Locked during a command. No answer is heard by a thread that frees memory, so this ends.
    rings: Mutex<Pool<Files>>,
    began: Instant,
}

/// Files for rings that the owner reaches as well.
#[derive(Debug)]
struct Files {
    conversation: Arc<Conversation>,
    why: WhyNone,
}

/// Why there is no file for rings. [`DmaError`] cannot say it.
#[derive(Clone, Debug, Default)]
pub(crate) struct WhyNone(Arc<Mutex<Option<Refused>>>);

impl WhyNone {
    /// What an error of memory for rings means.
    pub(crate) fn of(&self, error: e810::Error) -> Refused {
        match (&error, lock(&self.0).take()) {
            (e810::Error::Dma(DmaError::OutOfMemory { .. }), Some(why)) => why,
            _ => error.into(),
        }
    }
}

/// One of them, lent until it is dropped.
#[derive(Debug)]
struct LentFile {
    conversation: Arc<Conversation>,
    memory: MappedMemory,
    iova: u64,
}

impl Blocks for Files {
    type Block = LentFile;
    type Error = DmaError;
    // A program may have few bytes, and the owner maps pages.
    const CHUNK: (usize, usize) = (256 << 10, PAGE);

    fn make(&self, bytes: usize, align: usize) -> Result<LentFile, DmaError> {
        let none = |why| {
            *lock(&self.why.0) = Some(why);
            DmaError::OutOfMemory { bytes, align }
        };
        let no_file = |error| none(Refused::by_system("memory for a ring", &error));
        let memory = SharedMemory::new(bytes, false).map_err(no_file)?;
        let file = memory.file().try_clone_to_owned().map_err(no_file)?;
        let lend = Lend {
            bytes: memory.len() as u64,
            // Nothing is registered there.
            address: None,
        };
        let memory = memory.without_file();
        let lent = self.conversation.ask_plainly(lend, Some(file));
        let lent = LentFile {
            conversation: self.conversation.clone(),
            memory,
            iova: lent.map_err(none)?,
        };
        let is_aligned = lent.iova.is_multiple_of(align as u64);
        is_aligned.then_some(lent).ok_or_else(|| {
            none(Refused::unexpected(
                "an address of a file that is not aligned",
            ))
        })
    }

    fn full(&self, cause: IovaError) -> DmaError {
        let (bytes, align) = match cause {
            IovaError::Full { bytes, align } => (bytes, align),
            _ => (0, 0),
        };
        let (bytes, align) = (bytes as usize, align as usize);
        DmaError::OutOfMemory { bytes, align }
    }
}

impl Mapped for LentFile {
    fn iova(&self) -> u64 {
        self.iova
    }

    fn words(&self, offset: u64, words: usize) -> Option<NonNull<AtomicU64>> {
        part(self.memory.words(), offset, words)
    }
}

impl Drop for LentFile {
    fn drop(&mut self) {
        let iova = self.iova;
        // An owner that is gone has no device that writes there; it has mapped the file itself, so it
        // reaches no other memory of this process in any case.
        let _ = self.conversation.ask_plainly(TakeBack { iova }, None);
    }
}

impl AttachedPlatform {
    /// For a program that the owner has welcomed with these limits.
    pub(crate) fn new(
        conversation: Arc<Conversation>,
        limits: &ProgramLimits,
        why: WhyNone,
    ) -> Result<Self, Refused> {
        let memory = SharedMemory::new(Doorbells::bytes(limits), false);
        let no_file = |error| Refused::by_system("memory for doorbells", &error);
        let memory = memory.map_err(no_file)?;
        let file = memory.file().try_clone_to_owned().map_err(no_file)?;
        let doorbells = Doorbells::new(memory.without_file(), limits);
        let doorbells = doorbells.ok_or_else(Refused::no_memory)?;
        conversation.tell(LendDoorbells {}.command(), Some(file))?;
        Ok(Self(Arc::new(Inner {
            rings: Mutex::new(Pool::new(Files {
                conversation: conversation.clone(),
                why,
            })),
            conversation,
            doorbells,
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

// SAFETY: the pool returns disjoint pieces of files that are mapped here, and at the owner, which
// gives the device access to all of a file at the address that it answers. Before a piece is handed
// out it is zeroed; only atomics touch it. A file is unmapped after the owner has taken it back. The
// owner's device can still access a freed piece: the caller of `free` has stopped the device
// (contract), and reaches memory of this program alone.
unsafe impl DmaAlloc for AttachedPlatform {
    fn dma_alloc(&self, layout: DmaLayout) -> Result<RawDma, DmaError> {
        lock(&self.0.rings).alloc(layout)
    }

    unsafe fn dma_free(&self, raw: RawDma) {
        if !lock(&self.0.rings).free(raw) {
            log::error!("{} is not a live DMA allocation: not freed", raw.iova);
        }
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
