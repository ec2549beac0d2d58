//! Ends a run cleanly on Ctrl-C or `kill`.

use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use e810_backends::signals::Signals;

/// How often the waiting thread checks whether the run is over.
const AGAIN: Duration = Duration::from_millis(100);
/// How often [`watched`] checks its work.
const LOOK: Duration = Duration::from_millis(20);
/// Signals within this time are one request: `timeout` sends each process two, and so does a kill
/// of a process and its group.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// A run that a signal ended cleanly before it was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("interrupted by signal {0}")]
pub struct Interrupted(pub libc::c_int);

impl Interrupted {
    /// The exit code that shells use: 128 plus the signal's number, 130 for Ctrl-C.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        128u8.saturating_add(u8::try_from(self.0).unwrap_or(u8::MAX))
    }
}

/// Why a side stopped before it had posted all messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoppedBy {
    /// The time of the run is over.
    Duration,
    /// By this signal.
    Signal(i32),
}

#[derive(Debug, Default)]
struct Shared {
    /// The signal that came; 0: none.
    signal: AtomicI32,
    /// The run is over, so the thread can end.
    is_over: AtomicBool,
}

impl Shared {
    fn check(&self) -> Result<(), Interrupted> {
        match self.signal.load(Ordering::Relaxed) {
            0 => Ok(()),
            signal => Err(Interrupted(signal)),
        }
    }
}

/// A view of a [`Stop`], for code that waits during the run.
#[derive(Clone, Debug, Default)]
pub struct StopView(Arc<Shared>);

impl StopView {
    /// Fails when the run is to end.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn check(&self) -> Result<(), Interrupted> {
        self.0.check()
    }
}

/// Whether a run is asked to end. SIGINT, SIGTERM and SIGHUP no longer kill the process at once; a
/// second signal does, unless it comes with the first.
#[derive(Debug, Default)]
pub struct Stop(Arc<Shared>);

impl Stop {
    /// Waits for signals from now on. Call it before any thread is created.
    ///
    /// # Errors
    /// The system's error.
    pub fn on_signals() -> Result<Self> {
        Self::on_signals_and(&[], |_| {})
    }

    /// The same; at each of the signals `others`, which stop nothing, `then` is called.
    ///
    /// # Errors
    /// The system's error.
    pub fn on_signals_and(
        others: &'static [libc::c_int],
        then: impl Fn(libc::c_int) + Send + 'static,
    ) -> Result<Self> {
        let signals = Signals::stop_and(others)?;
        let stop = Self::default();
        let shared = Arc::clone(&stop.0);
        let wait = move || {
            let mut first = None;
            while !shared.is_over.load(Ordering::Relaxed) {
                let signal = match signals.wait_for(AGAIN) {
                    Ok(Some(signal)) if others.contains(&signal) => {
                        then(signal);
                        continue;
                    }
                    Ok(Some(signal)) => signal,
                    Ok(None) => continue,
                    Err(error) => return log::warn!("signals are no longer received: {error:#}"),
                };
                let first = *first.get_or_insert_with(Instant::now);
                if shared.check().is_ok() {
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
        self.check().is_err()
    }

    /// A view for other code.
    #[must_use]
    pub fn view(&self) -> StopView {
        StopView(Arc::clone(&self.0))
    }

    /// Fails when the run is to end.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn check(&self) -> Result<(), Interrupted> {
        self.0.check()
    }

    /// Why the run stopped before all messages were posted: a signal, else the end of its time.
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

/// Runs `work`, which may wait for others and cannot be interrupted, in a thread called `name`, and
/// returns its result. `watch` is called meanwhile; if it fails, the thread is left behind.
///
/// # Errors
/// The error of `watch`, or no thread.
pub fn watched<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
    watch: &dyn Fn() -> Result<()>,
) -> Result<T> {
    watch()?;
    let (tell, told) = sync_channel(1);
    let thread = thread::Builder::new().name(name.to_owned());
    // The caller may have left.
    let done = thread.spawn(move || drop(tell.send(work())));
    done.with_context(|| format!("a thread for {name}"))?;
    loop {
        match told.recv_timeout(LOOK) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Timeout) => watch()?,
            Err(RecvTimeoutError::Disconnected) => bail!("{name}: its thread panicked"),
        }
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
        assert_eq!(stop.view().check(), stop.check());
    }

    #[test]
    fn work_that_waits_for_others_ends_by_itself_or_by_its_watch() {
        assert_eq!(watched("work", || 7, &|| Ok(())).unwrap(), 7);
        let (never, waits) = sync_channel::<()>(1);
        let looks = std::cell::Cell::new(0);
        let watch = || {
            looks.set(looks.get() + 1);
            match looks.get() {
                3 => bail!("enough"),
                _ => Ok(()),
            }
        };
        let ended = watched("work", move || waits.recv(), &watch).unwrap_err();
        assert_eq!((ended.to_string().as_str(), looks.get()), ("enough", 3));
        drop(never);
        // It is not begun when it is too late.
        let late = watched("work", || (), &|| bail!("late"));
        assert_eq!(late.unwrap_err().to_string(), "late");
        let panicked = watched("work", || panic!("on purpose"), &|| Ok(()));
        assert!(panicked.unwrap_err().to_string().contains("panicked"));
    }
}
