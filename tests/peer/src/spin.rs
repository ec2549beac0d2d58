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

    /// Runs `call` with the lock held; the result of locking is looked at, as
    /// the library does.
    #[inline(always)]
    pub fn with<R>(&self, call: impl FnOnce() -> R) -> Option<R> {
        // SAFETY: initialised in `new`, and it stays where it is.
        if unsafe { libc::pthread_spin_lock(self.0.get()) } != 0 {
            return None;
        }
        let result = call();
        // SAFETY: held.
        unsafe { libc::pthread_spin_unlock(self.0.get()) };
        Some(result)
    }
}

impl Default for SpinLock {
    fn default() -> Self {
        Self::new()
    }
}
