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

use e810_hal::{Bus, Platform, RegOffset, forward};

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

forward!([P: Platform, L] Layered<P, L>, platform: DmaAlloc, DmaMap, HostMem, Clock, Barrier, InterruptVectors);

#[cfg(test)]
mod tests;
