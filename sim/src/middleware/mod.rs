//! Layers between a driver and its registers, for tracing and fault injection.
//!
//! A [`Layered`] platform is a platform whose register accesses pass through a [`Layer`]; memory,
//! time and vectors are those of the platform below. It works on any platform, and on top of
//! another layer.
//!
//! ```
//! use e810_hal::regs::PFPE_CQPDB;
//! use e810_sim::Sim;
//! use e810_sim::middleware::{Layered, Trace};
//!
//! let sim = Sim::builder().build();
//! let trace = Trace::new();
//! let nic = Layered::new(sim.function(0), trace.clone());
//! PFPE_CQPDB.set(&nic, 1);
//! assert_eq!(trace.lines(), ["write PFPE_CQPDB 0x1"]);
//! ```

mod inject;
mod trace;

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use e810_hal::{
    Access, Barrier, Bus, Clock, DmaAlloc, DmaError, DmaLayout, DmaMap, DmaSegment, HostMem,
    InterruptVectors, Mapping, NoHostMemory, Ns, RawDma, RegOffset, SharedBytes, Vector,
};

pub use inject::{Inject, Rule};
pub use trace::Trace;

/// A layer on register accesses. The default methods pass every access through.
pub trait Layer {
    /// Reads the register at `at` from `below`.
    fn read32(&self, below: &impl Bus, off: RegOffset) -> u32 {
        below.read32(off)
    }

    /// Writes the register at `at` to `below`.
    fn write32(&self, below: &impl Bus, off: RegOffset, value: u32) {
        below.write32(off, value);
    }
}

/// A platform with a layer on its registers.
#[derive(Clone, Debug)]
pub struct Layered<P, L> {
    platform: P,
    layer: L,
}

impl<P, L> Layered<P, L> {
    /// Puts `layer` on the registers of `platform`.
    pub fn new(platform: P, layer: L) -> Self {
        Self { platform, layer }
    }

    /// The platform below.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    pub fn layer(&self) -> &L {
        &self.layer
    }
}

impl<P: Bus, L: Layer> Bus for Layered<P, L> {
    fn read32(&self, off: RegOffset) -> u32 {
        self.layer.read32(&self.platform, off)
    }

    fn write32(&self, off: RegOffset, value: u32) {
        self.layer.write32(&self.platform, off, value);
    }
}

// SAFETY: everything is done by the platform below, whose promise this is.
unsafe impl<P: DmaAlloc, L> DmaAlloc for Layered<P, L> {
    fn dma_alloc(&self, layout: DmaLayout) -> Result<RawDma, DmaError> {
        self.platform.dma_alloc(layout)
    }

    unsafe fn dma_free(&self, raw: RawDma) {
        // SAFETY: the caller's promise, passed on: `raw` came from this same platform.
        unsafe { self.platform.dma_free(raw) }
    }
}

// SAFETY: as above.
unsafe impl<P: DmaMap, L> DmaMap for Layered<P, L> {
    fn dma_map(&self, memory: SharedBytes, access: Access) -> Result<Mapping, DmaError> {
        self.platform.dma_map(memory, access)
    }

    fn dma_segment(&self, mapping: &Mapping, index: u32) -> Option<DmaSegment> {
        self.platform.dma_segment(mapping, index)
    }

    fn dma_unmap(&self, mapping: Mapping) {
        self.platform.dma_unmap(mapping);
    }
}

// SAFETY: as above.
unsafe impl<P: HostMem, L> HostMem for Layered<P, L> {
    fn host_alloc(&self, words: usize) -> Result<NonNull<AtomicU64>, NoHostMemory> {
        self.platform.host_alloc(words)
    }

    unsafe fn host_free(&self, memory: NonNull<AtomicU64>, words: usize) {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.platform.host_free(memory, words) }
    }
}

impl<P: Clock, L> Clock for Layered<P, L> {
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

impl<P: Barrier, L> Barrier for Layered<P, L> {
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

impl<P: InterruptVectors, L> InterruptVectors for Layered<P, L> {
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

#[cfg(test)]
mod tests;
