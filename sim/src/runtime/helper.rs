//! Sleep and wake-up of the helper thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::thread::Thread;
use std::time::Duration;

/// Longest sleep of the thread.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// The sleep of the helper thread.
#[derive(Debug, Default)]
pub(super) struct Helper {
    thread: OnceLock<Thread>,
    asleep: AtomicBool,
    /// Time until which it sleeps.
    wakes_at: AtomicU64,
    stop: AtomicBool,
}

impl Helper {
    /// The thread that [`Helper::notify`] wakes.
    pub(super) fn set_thread(&self, thread: Thread) {
        // Called once.
        let _ = self.thread.set(thread);
        self.wake();
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The thread has something to do, which was put in place before this is called.
    pub(super) fn notify(&self) {
        // Orders the new work before the load; `sleep` does it the other way round.
        fence(Ordering::SeqCst);
        self.notify_behind_fence();
    }

    /// [`Helper::notify`] after a fence that follows the work.
    pub(super) fn notify_behind_fence(&self) {
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Work is due at `due`, which was put where the thread looks before this is called.
    pub(super) fn notify_of(&self, due: u64) {
        fence(Ordering::SeqCst);
        if due < self.wakes_at.load(Ordering::Relaxed) {
            self.notify();
        }
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Sleeps from `now` until `until` at most, unless `has_work` finds something.
    pub(super) fn sleep(&self, now: u64, until: u64, has_work: impl FnOnce() -> bool) {
        let until = until.min(now.saturating_add(MAX_SLEEP.as_nanos() as u64));
        self.wakes_at.store(until, Ordering::Relaxed);
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !has_work() && !self.is_stopped() {
            std::thread::park_timeout(Duration::from_nanos(until.saturating_sub(now)));
        }
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Sleeps for `time` in any case.
    pub(super) fn nap(time: Duration) {
        std::thread::sleep(time);
    }
}
