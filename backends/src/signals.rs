//! Signals that a thread waits for, so that they do not end it.

use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use vmm_sys_util::signal::{Error, block_signal, create_sigset};

/// The action of SIGXFSZ when the process began.
static AT_FIRST: OnceLock<libc::sighandler_t> = OnceLock::new();

/// From now on a file that would grow past the limit of the process (`ulimit -f`) makes the write
/// fail, and does not end the process.
pub fn take_file_limit_as_error() {
    // SAFETY: no code of this process is called.
    let before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    AT_FIRST.get_or_init(|| before);
}

/// Restores the first action of SIGXFSZ, for a program that the process becomes.
pub fn take_file_limit_as_at_first() {
    if let Some(before) = AT_FIRST.get() {
        // SAFETY: what was there before, which is the default or nothing.
        unsafe { libc::signal(libc::SIGXFSZ, *before) };
    }
}

/// Whether this process was started with a signal ignored, as `nohup` does with SIGHUP.
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: numbers and null pointers.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: nothing is changed, and the current action is written to a structure of this
    // function.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Signals that are blocked, and delivered only to the holder's `wait`.
#[derive(Debug)]
pub struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks the signals that end a command with an orderly shutdown: SIGINT, SIGTERM and, unless
    /// it is ignored, SIGHUP, which comes when a terminal or a connection is closed. Also blocks
    /// `others`.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    pub fn stop_and(others: &[libc::c_int]) -> Result<Self> {
        let mut signals = vec![libc::SIGINT, libc::SIGTERM];
        // A blocked signal would be delivered although it is ignored.
        signals.extend((!is_ignored(libc::SIGHUP)).then_some(libc::SIGHUP));
        signals.extend(others);
        Self::block(&signals)
    }

    /// Blocks `signals` from now on, also in threads that are created later: call it before any
    /// exists.
    ///
    /// # Errors
    /// The system's error.
    pub fn block(signals: &[libc::c_int]) -> Result<Self> {
        for signal in signals {
            match block_signal(*signal) {
                // Blocked by the parent process, or by an earlier run in this thread.
                Ok(()) | Err(Error::SignalAlreadyBlocked(_)) => {}
                Err(error) => bail!("blocking signal {signal}: {error:?}"),
            }
        }
        let set = create_sigset(signals);
        Ok(Self(set.map_err(|error| {
            anyhow!("making a set of signals: {error}")
        })?))
    }

    /// Sleeps until one of the signals comes.
    ///
    /// # Errors
    /// The system's error.
    pub fn wait(&self) -> Result<libc::c_int> {
        let mut signal = 0;
        // SAFETY: both live for the call, which writes the second.
        let code = unsafe { libc::sigwait(&raw const self.0, &raw mut signal) };
        ensure!(code == 0, "waiting for a signal: error {code}");
        Ok(signal)
    }

    /// Sleeps until one of the signals comes, for at most `limit`.
    ///
    /// # Errors
    /// The system's error.
    pub fn wait_for(&self, limit: Duration) -> Result<Option<libc::c_int>> {
        let start = Instant::now();
        loop {
            let left = limit.saturating_sub(start.elapsed());
            let left = libc::timespec {
                tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            // SAFETY: the set and the time live for the call, which writes nothing.
            let signal =
                unsafe { libc::sigtimedwait(&raw const self.0, ptr::null_mut(), &raw const left) };
            if signal > 0 {
                return Ok(Some(signal));
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN) => return Ok(None),
                // Another signal, or a debugger.
                Some(libc::EINTR) => {}
                _ => return Err(error).context("waiting for a signal"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_may_be_longer_than_any_clock_runs() {
        // Only for this thread; nothing else in this process waits for it.
        let signals = Signals::block(&[libc::SIGURG]).unwrap();
        // SAFETY: a signal that is blocked in this thread, and is sent to this thread.
        let sent = unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGURG) };
        assert_eq!(sent, 0);
        assert_eq!(signals.wait_for(Duration::MAX).unwrap(), Some(libc::SIGURG));
        let none = signals.wait_for(Duration::from_millis(1));
        assert_eq!(none.unwrap(), None);
    }
}
