//! A sleep that misses no interrupt: the program's thread parks, and a handler
//! unparks it.

use std::sync::OnceLock;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use e810_hal::Ns;

use super::apic::LocalApic;
use crate::interrupts::{self, Lines};

/// Who sleeps: the first thread that did.
static SLEEPER: OnceLock<Thread> = OnceLock::new();

/// Takes those of `lines` that fired, and sleeps until one has, but not longer
/// than `limit`: then none is returned. Called by one thread only.
pub(crate) fn sleep(_: &LocalApic, lines: Lines, limit: Ns) -> Lines {
    SLEEPER.get_or_init(thread::current);
    let end = Instant::now() + Duration::from_nanos(limit.0);
    loop {
        let fired = interrupts::take(lines);
        let left = end.saturating_duration_since(Instant::now());
        if fired.any() || left.is_zero() {
            return fired;
        }
        // An interrupt since the look has left its token: this returns at once.
        thread::park_timeout(left);
    }
}

/// Ends the sleep, also one that has not begun. Neither waits nor allocates: a
/// handler may call it, as the kernel's own drivers wake a futex from theirs.
pub(crate) fn end() {
    if let Some(sleeper) = SLEEPER.get() {
        sleeper.unpark();
    }
}
