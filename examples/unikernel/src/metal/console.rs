//! The serial port, as the program's console.

use core::fmt::{self, Write};

use crate::ports;

/// The first serial port.
const COM1: u16 = 0x3f8;
/// Turns to wait for room in the port; a port that never has any loses text.
const PATIENCE: u32 = 100_000;

/// A 16550 at 115200 baud, 8 data bits, no parity.
#[derive(Debug)]
pub struct Console(());

impl Console {
    /// Sets the port up. Harmless when it is set up already.
    #[must_use]
    pub fn open() -> Self {
        // No interrupts; divisor 1 behind the latch bit; 8N1; queues on and empty.
        for (register, value) in [(1, 0), (3, 0x80), (0, 1), (1, 0), (3, 3), (2, 7)] {
            // SAFETY: the port is this program's alone; these values only set
            // its format.
            unsafe { ports::write8(COM1 + register, value) };
        }
        Self(())
    }

    fn put(&mut self, byte: u8) {
        for _ in 0..PATIENCE {
            // SAFETY: line status of our own port: reading it changes nothing
            // that is used here.
            if unsafe { ports::read8(COM1 + 5) } & 0x20 != 0 {
                // SAFETY: there is room for a byte to send.
                unsafe { ports::write8(COM1, byte) };
                return;
            }
            core::hint::spin_loop();
        }
    }
}

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                self.put(b'\r');
            }
            self.put(byte);
        }
        Ok(())
    }
}

/// Prints a line. Nobody reads the result: a console has nowhere to complain.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        use core::fmt::Write as _;
        let _ = writeln!($crate::console::Console::open(), $($text)*);
    }};
}
