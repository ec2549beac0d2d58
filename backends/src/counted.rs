//! A platform wrapper that counts register accesses.
//!
//! A wrapper, so that the same code counts for every backend and the core needs no counters. Clones
//! share their counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use e810_hal::{Bus, Platform, RegOffset, forward};

/// A platform whose register accesses are counted.
#[derive(Clone, Debug)]
pub struct Counted<P> {
    inner: P,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    reads: AtomicU64,
    writes: AtomicU64,
}

/// Register accesses so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Accesses {
    /// Register reads.
    pub reads: u64,
    /// Register writes.
    pub writes: u64,
}

impl<P> Counted<P> {
    /// Counts from zero.
    #[must_use]
    pub fn new(inner: P) -> Self {
        Self {
            inner,
            counts: Arc::default(),
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn accesses(&self) -> Accesses {
        Accesses {
            reads: self.counts.reads.load(Ordering::Relaxed),
            writes: self.counts.writes.load(Ordering::Relaxed),
        }
    }

    /// The platform underneath.
    #[must_use]
    pub fn inner(&self) -> &P {
        &self.inner
    }
}

impl<P: Bus> Bus for Counted<P> {
    fn read32(&self, off: RegOffset) -> u32 {
        self.counts.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read32(off)
    }
    fn write32(&self, off: RegOffset, value: u32) {
        self.counts.writes.fetch_add(1, Ordering::Relaxed);
        self.inner.write32(off, value);
    }
}

forward!([P: Platform] Counted<P>, inner: DmaAlloc, DmaMap, HostMem, Clock, Barrier, InterruptVectors);
