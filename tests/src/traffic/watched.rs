//! A platform that remembers the memory it gave to the device.
//!
//! With it a test reaches the queues themselves, and can write into them what
//! no working device would, or no working program: also at the last moment
//! before the device looks ([`Watched::before`]).

use std::collections::BTreeMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use e810_hal::{Bus, DmaAlloc, DmaError, DmaLayout, Platform, RawDma, RegOffset, forward};

/// Live allocations by the address of their words: number of the allocation, and its words.
type Live = Mutex<BTreeMap<usize, (u64, RawWords)>>;

/// The words of an allocation.
#[derive(Clone, Copy, Debug)]
struct RawWords {
    words: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: the words are atomic; who reaches them holds the lock of the list they
// are in, and they leave it before they are freed.
unsafe impl Send for RawWords {}

/// A DMA allocation.
#[derive(Clone, Debug)]
pub struct Block {
    live: Arc<Live>,
    number: u64,
    address: usize,
    len: usize,
    /// Bytes asked for.
    pub bytes: usize,
    /// Alignment asked for.
    pub align: usize,
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.live, &other.live) && self.number == other.number
    }
}

impl Block {
    /// Does something with a word.
    fn with<R>(&self, index: usize, act: impl FnOnce(&AtomicU64) -> R) -> R {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let found = live.get(&self.address);
        let found = found.filter(|(number, _)| *number == self.number);
        let (_, raw) = found.expect("a block that was not freed");
        // SAFETY: `len` atomic words that are allocated as long as the list has
        // them, which cannot change while it is locked.
        let words = unsafe { std::slice::from_raw_parts(raw.words.as_ptr(), raw.len) };
        act(words.get(index).expect("a word of the block"))
    }

    /// Number of words.
    #[must_use]
    pub const fn words(&self) -> usize {
        self.len
    }

    /// Reads a word.
    ///
    /// # Panics
    /// When it was freed.
    #[must_use]
    pub fn get(&self, index: usize) -> u64 {
        self.with(index, |word| u64::from_le(word.load(Ordering::Acquire)))
    }

    /// Writes a word.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    pub fn set(&self, index: usize, value: u64) {
        self.with(index, |word| word.store(value.to_le(), Ordering::Release));
    }
}

/// What is done before each write to a register.
struct Trap {
    off: RegOffset,
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
    /// By number, which is the order in which they were made.
    blocks: Arc<Mutex<BTreeMap<u64, Block>>>,
    live: Arc<Live>,
    made: Arc<AtomicU64>,
    trap: Arc<Mutex<Option<Trap>>>,
}

impl<P> Watched<P> {
    pub fn new(platform: P) -> Self {
        Self {
            platform,
            blocks: Arc::default(),
            live: Arc::default(),
            made: Arc::default(),
            trap: Arc::default(),
        }
    }

    /// Calls `act` before each write to a register from now on, in place of what
    /// was called before. It must not write to a register itself.
    pub fn before(&self, off: RegOffset, act: impl FnMut() + Send + 'static) {
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
        self.lock().values().cloned().collect()
    }

    fn live(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, (u64, RawWords)>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Block>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Bus> Bus for Watched<P> {
    fn read32(&self, off: RegOffset) -> u32 {
        self.platform.read32(off)
    }

    fn write32(&self, off: RegOffset, value: u32) {
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
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let words = RawWords {
            words: raw.words,
            len: raw.len,
        };
        let address = raw.words.addr().get();
        self.live().insert(address, (number, words));
        let block = Block {
            live: Arc::clone(&self.live),
            number,
            address,
            len: raw.len,
            bytes: layout.bytes(),
            align: layout.align(),
        };
        self.lock().insert(number, block);
        Ok(raw)
    }

    unsafe fn dma_free(&self, raw: RawDma) {
        let mut live = self.live();
        if let Some((number, _)) = live.remove(&raw.words.addr().get()) {
            self.lock().remove(&number);
        }
        drop(live);
        // SAFETY: the caller's promise, passed on.
        unsafe { self.platform.dma_free(raw) }
    }
}

forward!([P: Platform] Watched<P>, platform: DmaMap, HostMem, Clock, Barrier, InterruptVectors);
