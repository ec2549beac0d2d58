//! The lock that the library takes around each call.

// UNSAFETY: calls the C library's lock.

use std::cell::UnsafeCell;

/// A `pthread_spinlock_t`, as the library has one in each QP and CQ.
#[derive(Debug)]
pub struct SpinLock(Box<UnsafeCell<libc::pthread_spinlock_t>>);

impl SpinLock {
    /// A lock that nobody holds.
    #[must_use]
    pub fn new() -> Self {
        let lock = Box::new(UnsafeCell::new(0));
        // SAFETY: memory for one lock, private to this process.
        unsafe { libc::pthread_spin_init(lock.get(), libc::PTHREAD_PROCESS_PRIVATE) };
        Self(lock)
    }

    /// Runs `call` with the lock held. What it returns is built in place: a
    /// copy of a large result just after it was written in parts would cost
    /// more than the lock.
    #[inline(always)]
    pub fn with<R>(&self, call: impl FnOnce() -> R) -> R {
        // SAFETY: initialised in `new`, and it stays where it is.
        if unsafe { libc::pthread_spin_lock(self.0.get()) } != 0 {
            // Looked at as the library does; this kind of lock has no failure.
            std::process::abort();
        }
        let result = call();
        // SAFETY: held.
        unsafe { libc::pthread_spin_unlock(self.0.get()) };
        result
    }
}

impl Default for SpinLock {
    fn default() -> Self {
        Self::new()
    }
}
