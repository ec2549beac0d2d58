//! The lock of a ring, held during a post or a poll.

use core::ptr;
use std::thread;

use spin::mutex::{SpinMutex, SpinMutexGuard};
use spin::relax::RelaxStrategy;

/// A lock that costs two atomic accesses while nobody else wants it.
pub(super) type Lock<T> = SpinMutex<T, YieldNow>;

pub(super) type Guard<'a, T> = SpinMutexGuard<'a, T>;

/// Keeps a lock that was taken: the thread calls `force_unlock` itself.
pub(super) fn leak<T>(guard: Guard<'_, T>) {
    Guard::leak(guard);
}

/// A number that identifies this thread among all running ones; never 0.
pub(super) fn this_thread() -> usize {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| ptr::from_ref(place).addr())
}

/// Yields: the lock's holder may have been interrupted, or waits for a command of a reset.
#[derive(Debug)]
pub(super) struct YieldNow;

impl RelaxStrategy for YieldNow {
    #[cold]
    fn relax() {
        for _ in 0..16 {
            core::hint::spin_loop();
        }
        thread::yield_now();
    }
}
