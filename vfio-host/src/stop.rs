//! Asking a run to end in order, by Ctrl-C or a `kill`.

use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use e810_backends::signals::Signals;

/// How often the waiting thread checks whether the run is over.
const AGAIN: Duration = Duration::from_millis(100);
/// Signals within this time are one request: `timeout`, and who ends a process and its group,
/// sends each process two.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// A run that a signal ended before it was through, with everything in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("interrupted by signal {0}")]
pub struct Interrupted(pub libc::c_int);

impl Interrupted {
    /// The exit code that shells use for it: 128 and the signal's number, 130
    /// for Ctrl-C.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        128u8.saturating_add(u8::try_from(self.0).unwrap_or(u8::MAX))
    }
}

/// Why a side posts nothing more before it has posted all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoppedBy {
    /// The time that both were asked for is over.
    Duration,
    /// This signal came.
    Signal(i32),
}

#[derive(Debug, Default)]
struct Shared {
    /// The signal that came; 0: none.
    signal: AtomicI32,
    /// Nobody asks any more.
    is_over: AtomicBool,
}

impl Shared {
    fn is_asked(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }
}

/// Whether a run is asked to end: SIGINT, SIGTERM and SIGHUP no longer end the process
/// where it stands. The second one does, unless it comes with the first.
#[derive(Debug, Default)]
pub struct Stop(Arc<Shared>);

impl Stop {
    /// Waits for signals from now on; call it before any thread is made.
    ///
    /// # Errors
    /// What the system says.
    pub fn on_signals() -> Result<Self> {
        let signals = Signals::stop_and(&[])?;
        let stop = Self::default();
        let shared = Arc::clone(&stop.0);
        let wait = move || {
            let mut first = None;
            while !shared.is_over.load(Ordering::Relaxed) {
                let signal = match signals.wait_for(AGAIN) {
                    Ok(Some(signal)) => signal,
                    Ok(None) => continue,
                    Err(error) => return log::warn!("signals are not seen any more: {error:#}"),
                };
                let first = *first.get_or_insert_with(Instant::now);
                if !shared.is_asked() {
                    shared.signal.store(signal, Ordering::Relaxed);
                } else if first.elapsed() > ONE_REQUEST {
                    // A second signal means: end at once, without an orderly shutdown.
                    exit(Interrupted(signal).exit_code().into());
                }
            }
        };
        let thread = thread::Builder::new().name("signals".to_owned());
        thread.spawn(wait).context("waiting for signals")?;
        Ok(stop)
    }

    /// Whether the run is to end.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.is_asked()
    }

    /// Fails when the run is to end.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn check(&self) -> Result<(), Interrupted> {
        match self.0.signal.load(Ordering::Relaxed) {
            0 => Ok(()),
            signal => Err(Interrupted(signal)),
        }
    }

    /// Why messages end before all were posted: a signal, or else their time is over.
    #[must_use]
    pub fn stopped_by(&self) -> StoppedBy {
        match self.check() {
            Err(Interrupted(signal)) => StoppedBy::Signal(signal),
            Ok(()) => StoppedBy::Duration,
        }
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_shells() {
        assert_eq!(Interrupted(libc::SIGINT).exit_code(), 130);
        assert_eq!(Interrupted(libc::SIGTERM).exit_code(), 143);
    }

    #[test]
    fn nobody_asks_at_first() {
        let stop = Stop::default();
        assert!(!stop.is_asked());
        assert_eq!(stop.check(), Ok(()));
        stop.0.signal.store(libc::SIGTERM, Ordering::Relaxed);
        assert_eq!(stop.check(), Err(Interrupted(libc::SIGTERM)));
    }
}
