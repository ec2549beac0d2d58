//! Serial ports.

use crate::ports;

/// The first port: the console.
pub(crate) const COM1: u16 = 0x3f8;
/// The second port: frames of the log.
#[cfg(feature = "defmt")]
pub(crate) const COM2: u16 = 0x2f8;
/// Turns to wait for room in a port; one that never has any loses bytes.
const PATIENCE: u32 = 100_000;

/// A 16550 at 115200 baud, 8 data bits, no parity.
#[derive(Debug)]
pub(crate) struct Serial(u16);

impl Serial {
    /// Sets the port up. Harmless when it is set up already.
    #[must_use]
    pub(crate) fn open(base: u16) -> Self {
        // No interrupts; divisor 1 behind the latch bit; 8N1; queues on and empty.
        for (register, value) in [(1, 0), (3, 0x80), (0, 1), (1, 0), (3, 3), (2, 7)] {
            // SAFETY: the port is this program's alone; these values only set
            // its format.
            unsafe { ports::write8(base + register, value) };
        }
        Self(base)
    }

    /// Sends bytes, waiting for room.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.put(*byte));
    }

    fn put(&mut self, byte: u8) {
        for _ in 0..PATIENCE {
            // SAFETY: line status of our own port: reading it changes nothing
            // that is used here.
            if unsafe { ports::read8(self.0 + 5) } & 0x20 != 0 {
                // SAFETY: there is room for a byte to send.
                unsafe { ports::write8(self.0, byte) };
                return;
            }
            core::hint::spin_loop();
        }
    }
}
