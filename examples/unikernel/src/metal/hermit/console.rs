//! The kernel's console, which is the first serial port.

use std::fmt::{self, Write};
use std::io::{self, Stdout};

/// Takes text.
#[derive(Debug)]
pub struct Console(Stdout);

impl Console {
    /// The standard output.
    #[must_use]
    pub fn open() -> Self {
        Self(io::stdout())
    }
}

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        io::Write::write_all(&mut self.0, text.as_bytes()).map_err(|_| fmt::Error)
    }
}
