//! Trace of register accesses as text.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use e810_hal::{Bus, RegOffset};

use super::Layer;
use crate::regs;

/// Records every access as a line: `write PFPE_CQPDB 0x1`, `read GLINT_DYN_CTL(3) 0x0`. Clones
/// share the record.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Trace {
    /// An empty record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lock().clone()
    }

    /// Returns the lines so far and clears them.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock())
    }
}

impl Layer for Trace {
    fn read32(&self, below: &impl Bus, off: RegOffset) -> u32 {
        let value = below.read32(off);
        self.lock()
            .push(format!("read {} {value:#x}", regs::name(off)));
        value
    }

    fn write32(&self, below: &impl Bus, off: RegOffset, value: u32) {
        self.lock()
            .push(format!("write {} {value:#x}", regs::name(off)));
        below.write32(off, value);
    }
}
