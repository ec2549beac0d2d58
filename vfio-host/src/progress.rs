//! A progress line on a terminal, nothing in a pipe.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Shows how far a loop is, at most ten times a second.
#[derive(Debug)]
pub struct Progress {
    total: u64,
    shown: Option<Instant>,
    terminal: bool,
}

const EVERY: Duration = Duration::from_millis(100);

impl Progress {
    /// A loop of `total` turns.
    #[must_use]
    pub fn new(total: u64) -> Self {
        Self {
            total,
            shown: None,
            terminal: stderr().is_terminal(),
        }
    }

    /// Says that `done` turns are done.
    pub fn at(&mut self, done: u64) {
        // A look at the clock for every message would be part of its latency.
        if !self.terminal || done & 0xFF != 0 || self.shown.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        // A progress line that cannot be written is no reason to stop.
        let _ = write!(stderr(), "\r{done} / {} messages", self.total);
    }

    /// Clears the line.
    pub fn finish(self) {
        if self.terminal && self.shown.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
