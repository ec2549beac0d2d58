//! Time: the processor's time-stamp counter, measured against the PIT.

use core::arch::x86_64::_rdtsc;

use e810_hal::Ns;

use crate::machine::MachineError;
use crate::ports;

/// Cycles of the PIT in a second.
const PIT_HZ: u64 = 1_193_182;
/// Cycles of the PIT that are measured: 10 ms.
const PIT_CYCLES: u16 = 11_932;
/// Looks at the PIT at most; each takes about a microsecond on a real machine.
const PATIENCE: u32 = 10_000_000;

/// Nanoseconds since the program's start.
#[derive(Clone, Copy, Debug)]
pub struct Uptime {
    start: u64,
    /// Nanoseconds a cycle takes, times 2^32.
    scale: u64,
}

impl Uptime {
    /// Starts at zero now, and finds out how fast the counter runs.
    ///
    /// # Errors
    /// [`MachineError::NoPit`].
    pub fn start() -> Result<Self, MachineError> {
        let start = cycles();
        let [low, high] = PIT_CYCLES.to_le_bytes();
        // SAFETY: channel 2 of the PIT is the speaker's and used by nobody:
        // gate on, speaker off; one count down to zero, which starts it.
        let began = unsafe {
            ports::write8(0x61, ports::read8(0x61) & !2 | 1);
            ports::write8(0x43, 0xb0);
            ports::write8(0x42, low);
            ports::write8(0x42, high);
            cycles()
        };
        // SAFETY: reading tells the channel's output and changes nothing.
        let done = (0..PATIENCE).any(|_| unsafe { ports::read8(0x61) } & 0x20 != 0);
        let took = cycles().saturating_sub(began);
        let ns = u64::from(PIT_CYCLES) * 1_000_000_000 / PIT_HZ;
        match (ns << 32).checked_div(took) {
            Some(scale) if done => {
                let this = Self { start, scale };
                #[cfg(feature = "defmt")]
                super::frames::tell_time(&this);
                Ok(this)
            }
            _ => Err(MachineError::NoPit),
        }
    }

    /// Start and scale, for code that cannot hold a clock.
    #[cfg(feature = "defmt")]
    pub(crate) const fn parts(&self) -> [u64; 2] {
        [self.start, self.scale]
    }

    /// The clock with these.
    #[cfg(feature = "defmt")]
    pub(crate) const fn from_parts([start, scale]: [u64; 2]) -> Self {
        Self { start, scale }
    }

    /// Time since the start.
    #[must_use]
    pub fn now(&self) -> Ns {
        let cycles = cycles().saturating_sub(self.start);
        Ns(((u128::from(cycles) * u128::from(self.scale)) >> 32) as u64)
    }
}

fn cycles() -> u64 {
    // SAFETY: every x86_64 processor has it.
    unsafe { _rdtsc() }
}
