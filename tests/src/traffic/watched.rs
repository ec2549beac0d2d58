//! A platform that remembers the memory it gave to the device.
//!
//! With it a test reaches the queues themselves, and can write into them what
//! no working device would, or no working program: also at the last moment
//! before the device looks ([`Watched::before`]).

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use e810_hal::{
    Access, Barrier, Bus, Clock, DmaAlloc, DmaError, DmaLayout, DmaMap, HostMem, Mapping,
    NoHostMemory, Ns, Off, RawDma, Run, SharedBytes, Vector, Vectors,
};

/// A DMA allocation that is alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    words: NonNull<AtomicU64>,
    len: usize,
    /// Bytes asked for.
    pub bytes: usize,
    /// Alignment asked for.
    pub align: usize,
}

// SAFETY: the words are atomic, and whoever uses a block keeps it allocated.
unsafe impl Send for Block {}

impl Block {
    /// Its words. The object it belongs to must not have been destroyed.
    fn cells(&self) -> &[AtomicU64] {
        // SAFETY: `len` atomic words that stay valid until `dma_free`; tests
        // use blocks only while the queue they found them with is alive.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.len) }
    }

    /// Number of words.
    #[must_use]
    pub const fn words(&self) -> usize {
        self.len
    }

    /// Reads a word.
    #[must_use]
    pub fn get(&self, index: usize) -> u64 {
        let word = self.cells().get(index).expect("a word of the block");
        u64::from_le(word.load(Ordering::Acquire))
    }

    /// Writes a word.
    pub fn set(&self, index: usize, value: u64) {
        let word = self.cells().get(index).expect("a word of the block");
        word.store(value.to_le(), Ordering::Release);
    }
}

/// What is done before each write to a register.
struct Trap {
    off: Off,
    act: Box<dyn FnMut() + Send>,
}

impl fmt::Debug for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trap").field(&self.off).finish()
    }
}

/// A platform that remembers its live DMA allocations, oldest first.
#[derive(Clone, Debug)]
pub struct Watched<P> {
    platform: P,
    blocks: Arc<Mutex<Vec<Block>>>,
    trap: Arc<Mutex<Option<Trap>>>,
}

impl<P> Watched<P> {
    /// Watches a platform.
    pub fn new(platform: P) -> Self {
        Self {
            platform,
            blocks: Arc::default(),
            trap: Arc::default(),
        }
    }

    /// Calls `act` before each write to a register from now on, in place of what
    /// was called before. It must not write to a register itself.
    pub fn before(&self, off: Off, act: impl FnMut() + Send + 'static) {
        *self.trap() = Some(Trap {
            off,
            act: Box::new(act),
        });
    }

    /// Calls nothing any more.
    pub fn before_nothing(&self) {
        *self.trap() = None;
    }

    fn trap(&self) -> std::sync::MutexGuard<'_, Option<Trap>> {
        self.trap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The platform below.
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// The live allocations, oldest first.
    #[must_use]
    pub fn blocks(&self) -> Vec<Block> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Block>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Bus> Bus for Watched<P> {
    fn read32(&self, off: Off) -> u32 {
        self.platform.read32(off)
    }

    fn write32(&self, off: Off, value: u32) {
        if let Some(trap) = self.trap().as_mut().filter(|trap| trap.off == off) {
            (trap.act)();
        }
        self.platform.write32(off, value);
    }
}

// SAFETY: everything is done by the platform below, whose promise this is.
unsafe impl<P: DmaAlloc> DmaAlloc for Watched<P> {
    fn dma_alloc(&self, layout: DmaLayout) -> Result<RawDma, DmaError> {
        let raw = self.platform.dma_alloc(layout)?;
        self.lock().push(Block {
            words: raw.words,
            len: raw.len,
            bytes: layout.bytes(),
            align: layout.align(),
        });
        Ok(raw)
    }

    unsafe fn dma_free(&self, raw: RawDma) {
        self.lock().retain(|block| block.words != raw.words);
        // SAFETY: the caller's promise, passed on.
        unsafe { self.platform.dma_free(raw) }
    }
}

// SAFETY: as above.
unsafe impl<P: DmaMap> DmaMap for Watched<P> {
    fn dma_map(&self, memory: SharedBytes, access: Access) -> Result<Mapping, DmaError> {
        self.platform.dma_map(memory, access)
    }

    fn dma_run(&self, mapping: &Mapping, index: u32) -> Option<Run> {
        self.platform.dma_run(mapping, index)
    }

    fn dma_unmap(&self, mapping: Mapping) {
        self.platform.dma_unmap(mapping);
    }
}

// SAFETY: as above.
unsafe impl<P: HostMem> HostMem for Watched<P> {
    fn host_alloc(&self, words: usize) -> Result<NonNull<AtomicU64>, NoHostMemory> {
        self.platform.host_alloc(words)
    }

    unsafe fn host_free(&self, memory: NonNull<AtomicU64>, words: usize) {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.platform.host_free(memory, words) }
    }
}

impl<P: Clock> Clock for Watched<P> {
    fn now(&self) -> Ns {
        self.platform.now()
    }

    fn delay(&self, time: Ns) {
        self.platform.delay(time);
    }

    fn relax(&self) {
        self.platform.relax();
    }
}

impl<P: Barrier> Barrier for Watched<P> {
    fn to_device(&self) {
        self.platform.to_device();
    }

    fn from_device(&self) {
        self.platform.from_device();
    }

    fn flush_wc(&self) {
        self.platform.flush_wc();
    }
}

impl<P: Vectors> Vectors for Watched<P> {
    fn vector_count(&self) -> u16 {
        self.platform.vector_count()
    }

    fn vector_alloc(&self) -> Option<Vector> {
        self.platform.vector_alloc()
    }

    fn vector_free(&self, vector: Vector) {
        self.platform.vector_free(vector);
    }

    fn vector_affinity(&self, vector: Vector, cpu: u32) {
        self.platform.vector_affinity(vector, cpu);
    }
}
