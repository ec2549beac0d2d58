//! Time: the kernel's.

use std::time::Instant;

use e810_hal::Ns;

use crate::machine::MachineError;

/// Nanoseconds since the program's start.
#[derive(Clone, Copy, Debug)]
pub struct Uptime(Instant);

impl Uptime {
    /// Starts at zero now.
    ///
    /// # Errors
    /// None: the kernel has a clock.
    pub fn start() -> Result<Self, MachineError> {
        Ok(Self(Instant::now()))
    }

    /// Time since the start.
    #[must_use]
    pub fn now(&self) -> Ns {
        Ns(self.0.elapsed().as_nanos() as u64)
    }
}
