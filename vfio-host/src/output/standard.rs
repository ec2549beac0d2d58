//! Standard output that remembers whether its reader is gone, names itself in errors, and wraps
//! lines to the terminal.

use std::io::{self, ErrorKind, StdoutLock, Write, stdout};

use crate::output::terminal;
use crate::output::unwritten::of_standard_output;
use crate::output::wrap::wrap;

/// Exit code when nobody reads the output any more: that of a program that SIGPIPE ended.
pub const NOBODY_READS: u8 = 141;

/// Standard output.
#[derive(Debug)]
pub struct Standard {
    out: StdoutLock<'static>,
    /// Characters of a line, on a terminal.
    width: Option<usize>,
    /// The line that has not ended yet.
    line: Vec<u8>,
    is_closed: bool,
}

impl Standard {
    /// Locks standard output.
    #[must_use]
    pub fn lock() -> Self {
        Self::with(terminal::size().map(|size| size.columns))
    }

    /// Locks it for text whose lines fit already.
    pub(crate) fn lock_unwrapped() -> Self {
        Self::with(None)
    }

    fn with(width: Option<usize>) -> Self {
        Self {
            out: stdout().lock(),
            width,
            line: Vec::new(),
            is_closed: false,
        }
    }

    /// Whether the reader has closed it, as `head` does. That is not a failure, and there is
    /// nothing to report.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            self.is_closed |= error.kind() == ErrorKind::BrokenPipe;
            of_standard_output(error)
        })
    }

    /// Writes the line so far.
    fn put(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let result = match self.width {
            Some(width) => {
                let text = wrap(&String::from_utf8_lossy(&line), width);
                self.out.write_all(text.as_bytes())
            }
            None => self.out.write_all(&line),
        };
        self.note(result)
    }
}

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A line is one write: a reader that leaves after a line must not see half of it fail.
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.put()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.put()?;
        }
        let result = self.out.flush();
        self.note(result)
    }
}
