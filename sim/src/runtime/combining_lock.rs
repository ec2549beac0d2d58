//! A resource that threads with work for it run, one at a time and without waiting.
//!
//! A thread puts work where the resource will find it, [announces](CombiningLock::announce) it, and
//! tries to [run](CombiningLock::try_run) the resource. If another thread is running the resource, that
//! thread does the new work too, or learns that some is left. No announced work is forgotten.

use sync::{AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering, PoisonError, TryLockError, fence};

#[cfg(not(loom))]
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
    pub(super) use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
}
#[cfg(loom)]
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
    pub(super) use loom::sync::{Mutex, MutexGuard};
    pub(super) use std::sync::{PoisonError, TryLockError};
}

/// The resource, while a thread has it.
pub(super) type Guard<'a, T> = MutexGuard<'a, T>;

/// Turns in a row before the thread has to arrange for the rest of the work.
const TURNS: u32 = 4;

/// Result of an attempt to run the resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attempt {
    /// Another thread has the resource, and will do or find what was announced.
    Taken,
    /// The resource had its turns, and all announced work is done.
    Done,
    /// The resource had its turns, and there is more work: the caller arranges for another attempt.
    Left,
}

/// A resource, and a flag for pending work.
#[derive(Debug)]
pub(super) struct CombiningLock<T> {
    resource: Mutex<T>,
    /// Work was announced, and no turn has begun to do it.
    work: AtomicBool,
    /// Threads that wait in [`CombiningLock::lock`].
    waiting: AtomicU32,
}

impl<T> CombiningLock<T> {
    pub(super) fn new(resource: T) -> Self {
        Self {
            resource: Mutex::new(resource),
            work: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
        }
    }

    /// Announces work, which was put where the resource finds it before this call. A fence
    /// (`SeqCst`) separates the work from whatever the caller does next.
    pub(super) fn announce(&self) {
        // Between work and load: either the load sees that a turn has taken the flag, or that turn
        // sees the work. The store is left out where possible, because it takes the cache line from
        // the thread that runs the resource.
        fence(Ordering::SeqCst);
        if !self.work.load(Ordering::Relaxed) {
            self.work.store(true, Ordering::Relaxed);
            // Between the store and an attempt that finds the resource taken: the thread that has
            // it loads the flag after it lets go, after a fence too, so one of the two sees the
            // other.
            fence(Ordering::SeqCst);
        }
    }

    /// Whether work was announced that no turn has begun to do.
    pub(super) fn has_work(&self) -> bool {
        self.work.load(Ordering::Relaxed)
    }

    /// Gives the resource turns while there is work. `turn` does some of it and returns whether any
    /// is left. The first turn takes place even if no work was announced.
    pub(super) fn try_run(&self, mut turn: impl FnMut(&mut T) -> bool) -> Attempt {
        for _ in 0..TURNS {
            if self.waiting.load(Ordering::Relaxed) != 0 {
                // Locks are not fair, and the waiting thread does not run the resource.
                return self.left_after(Attempt::Left);
            }
            let mut resource = match self.resource.try_lock() {
                Ok(resource) => resource,
                // A panic inside the model is a bug of its own; what it left is still good enough
                // to clean up with.
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return Attempt::Taken,
            };
            self.work.store(false, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if turn(&mut resource) {
                self.work.store(true, Ordering::SeqCst);
            }
            drop(resource);
            if self.left_after(Attempt::Done) == Attempt::Done {
                return Attempt::Done;
            }
        }
        Attempt::Left
    }

    /// [`Attempt::Left`] when there is work after the resource was released.
    fn left_after(&self, otherwise: Attempt) -> Attempt {
        // Between the release and the load: a thread that found the resource taken has announced
        // its work before.
        fence(Ordering::SeqCst);
        if self.has_work() {
            Attempt::Left
        } else {
            otherwise
        }
    }

    /// Waits for the resource. Work may be announced meanwhile: the caller checks
    /// [`CombiningLock::has_work_after`] when it has released the resource.
    pub(super) fn lock(&self) -> Guard<'_, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let resource = self.resource.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        resource
    }

    /// Whether there is work, after the resource was released.
    pub(super) fn has_work_after(&self) -> bool {
        self.left_after(Attempt::Done) == Attempt::Left
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn turns_go_on_while_there_is_work() {
        let lock = CombiningLock::new(3_u32);
        let count_down = |left: &mut u32| {
            *left -= 1;
            *left > 0
        };
        lock.announce();
        assert!(lock.has_work());
        assert_eq!(lock.try_run(count_down), Attempt::Done);
        assert!(!lock.has_work());
        *lock.lock() = TURNS + 1;
        assert_eq!(lock.try_run(count_down), Attempt::Left);
        assert_eq!(lock.try_run(count_down), Attempt::Done);
        assert_eq!(*lock.lock(), 0);
    }

    #[test]
    fn a_taken_resource_is_not_waited_for() {
        let lock = CombiningLock::new(());
        let taken = lock.lock();
        lock.announce();
        assert_eq!(lock.try_run(|()| false), Attempt::Taken);
        drop(taken);
        assert!(lock.has_work_after());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32 as Work;

    /// Does all pending work, and counts it.
    fn turn(work: &Work, done: &mut u32) -> bool {
        *done += work.swap(0, Ordering::Relaxed);
        false
    }

    fn attempt(lock: &CombiningLock<u32>, work: &Work) {
        work.fetch_add(1, Ordering::Relaxed);
        lock.announce();
        while lock.try_run(|done| turn(work, done)) == Attempt::Left {
            loom::thread::yield_now();
        }
    }

    /// A thread that loses the race for the resource leaves its work to the winner.
    #[test]
    fn no_announced_work_is_forgotten() {
        loom::model(|| {
            let shared = Arc::new((CombiningLock::new(0), Work::new(0)));
            let other = Arc::clone(&shared);
            let thread = loom::thread::spawn(move || attempt(&other.0, &other.1));
            attempt(&shared.0, &shared.1);
            thread.join().unwrap();
            assert!(!shared.0.has_work());
            assert_eq!(*shared.0.lock(), 2);
        });
    }

    /// A thread that has locked the resource learns of work that came meanwhile.
    #[test]
    fn work_that_comes_while_the_resource_is_locked_is_found() {
        loom::model(|| {
            let shared = Arc::new((CombiningLock::new(0), Work::new(0)));
            let other = Arc::clone(&shared);
            let thread = loom::thread::spawn(move || attempt(&other.0, &other.1));
            drop(shared.0.lock());
            let found = shared.0.has_work_after();
            if found {
                let _ = shared.0.try_run(|done| turn(&shared.1, done));
            }
            thread.join().unwrap();
            assert_eq!(*shared.0.lock(), 1);
        });
    }
}
