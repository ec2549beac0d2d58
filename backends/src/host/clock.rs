//! The machine's clock.

use e810_hal::Ns;

/// The time since the machine began, without that in which it slept: the same clock in all processes.
#[must_use]
pub fn monotonic() -> Ns {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes the time there. Every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let (seconds, ns) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Ns(seconds.saturating_mul(1_000_000_000).saturating_add(ns))
}
