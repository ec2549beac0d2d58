//! A progress line on a terminal, nothing in a pipe.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Shows the progress of a loop, at most ten times a second.
#[derive(Debug)]
pub struct Progress {
    is_seen: bool,
    /// When it was shown last.
    shown: Option<Instant>,
    /// There is a line to clear.
    is_there: bool,
}

const EVERY: Duration = Duration::from_millis(100);

impl Progress {
    /// On standard error, if that is a terminal.
    #[must_use]
    pub fn new() -> Self {
        Self {
            is_seen: stderr().is_terminal(),
            shown: None,
            is_there: false,
        }
    }

    /// Shows the progress, if it is time; `text` must fit a line.
    pub fn at(&mut self, text: impl FnOnce() -> String) {
        if self.is_due() {
            self.show(&text());
        }
    }

    fn is_due(&mut self) -> bool {
        // The clock is read only for a terminal, because reading it would add to what is measured.
        self.is_seen && self.shown.is_none_or(|at| at.elapsed() >= EVERY)
    }

    fn show(&mut self, text: &dyn Display) {
        self.shown = Some(Instant::now());
        self.is_there = true;
        // A progress line that cannot be written does not matter.
        let _ = write!(stderr(), "\r{text}\x1b[K");
    }

    /// Clears the line, before other text or at the end.
    pub fn clear(&mut self) {
        if self.is_there {
            let _ = write!(stderr(), "\r\x1b[K");
            self.is_there = false;
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
