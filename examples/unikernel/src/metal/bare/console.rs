//! The first serial port, as the program's console.

use core::fmt::{self, Write};

use super::serial::{COM1, Serial};

/// Takes text.
#[derive(Debug)]
pub struct Console(Serial);

impl Console {
    /// Sets the port up. Harmless when it is set up already.
    #[must_use]
    pub fn open() -> Self {
        Self(Serial::open(COM1))
    }
}

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for line in text.split_inclusive('\n') {
            self.0.send(line.trim_end_matches('\n').as_bytes());
            if line.ends_with('\n') {
                self.0.send(b"\r\n");
            }
        }
        Ok(())
    }
}
