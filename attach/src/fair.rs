//! A lock for which programs wait in turns: of those that wait, the one whose number comes next
//! after the last one's gets it, and within a program the thread that came first. So a program that
//! gives one command after another delays each command of another by one of its own.
//!
//! Nothing is bounded here but the wait: each thread waits for one turn at most.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, Thread};

use crate::lock;

/// A value that one thread at a time has.
#[derive(Debug)]
pub(crate) struct Fair<T> {
    turns: Mutex<Turns>,
    /// Free when a turn begins.
    value: Mutex<T>,
}

#[derive(Debug, Default)]
struct Turns {
    is_taken: bool,
    /// Whose turn it was last.
    last: u64,
    /// How many there were.
    given: u64,
    /// In the order in which they came. No queue is empty.
    waiting: BTreeMap<u64, VecDeque<Arc<Waiter>>>,
}

#[derive(Debug)]
struct Waiter {
    thread: Thread,
    /// The number of its turn; 0: not yet.
    turn: AtomicU64,
}

/// A turn; the next one begins when this is dropped.
#[derive(Debug)]
pub(crate) struct FairGuard<'a, T> {
    // Dropped in this order.
    value: MutexGuard<'a, T>,
    _turn: Turn<'a>,
    passed: u64,
}

#[derive(Debug)]
struct Turn<'a>(&'a Mutex<Turns>);

impl<T> Fair<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            turns: Mutex::default(),
            value: Mutex::new(value),
        }
    }

    /// Waits for a turn of the program `who`.
    pub(crate) fn lock(&self, who: u64) -> FairGuard<'_, T> {
        let mut turns = lock(&self.turns);
        let came = turns.given;
        let passed = if turns.is_taken {
            let waiter = Arc::new(Waiter {
                thread: thread::current(),
                turn: AtomicU64::new(0),
            });
            let queue = turns.waiting.entry(who).or_default();
            queue.push_back(waiter.clone());
            drop(turns);
            loop {
                match waiter.turn.load(Ordering::Acquire) {
                    0 => thread::park(),
                    turn => break turn - came - 1,
                }
            }
        } else {
            turns.take(who);
            drop(turns);
            0
        };
        FairGuard {
            _turn: Turn(&self.turns),
            value: lock(&self.value),
            passed,
        }
    }

    /// How many wait.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        lock(&self.turns).waiting.values().map(VecDeque::len).sum()
    }
}

impl<T> FairGuard<'_, T> {
    /// Turns of all programs that came while this one waited, after the one that it found.
    pub(crate) const fn passed(&self) -> u64 {
        self.passed
    }
}

impl Turns {
    fn take(&mut self, who: u64) {
        self.is_taken = true;
        self.last = who;
        self.given += 1;
    }

    /// Whose turn is next.
    fn next(&mut self) -> Option<(u64, Arc<Waiter>)> {
        let after = (Bound::Excluded(self.last), Bound::Unbounded);
        let next = self.waiting.range(after).next();
        let who = *next.or_else(|| self.waiting.iter().next())?.0;
        let queue = self.waiting.get_mut(&who)?;
        let waiter = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&who);
        }
        Some((who, waiter))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut turns = lock(self.0);
        turns.is_taken = false;
        if let Some((who, waiter)) = turns.next() {
            turns.take(who);
            waiter.turn.store(turns.given, Ordering::Release);
            drop(turns);
            waiter.thread.unpark();
        }
    }
}

impl<T> Deref for FairGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for FairGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Who gets a turn, of those that came in this order while another one had it.
    fn order(holder: u64, came: &[u64]) -> Vec<(u64, u64)> {
        let fair = Fair::new(Vec::new());
        let held = fair.lock(holder);
        thread::scope(|scope| {
            let fair = &fair;
            for (at, who) in came.iter().copied().enumerate() {
                scope.spawn(move || {
                    let mut turn = fair.lock(who);
                    let passed = turn.passed();
                    turn.push((who, passed));
                });
                let limit = Instant::now() + Duration::from_secs(60);
                while fair.waiting() <= at {
                    assert!(Instant::now() < limit, "waiter {at} never waits");
                    thread::yield_now();
                }
            }
            drop(held);
        });
        let mut order = fair.lock(0);
        std::mem::take(&mut *order)
    }

    #[test]
    fn those_who_wait_take_turns_by_program() {
        // One with many threads is passed once by each of the others.
        let came = [1, 1, 1, 1, 2, 3, 2];
        let expected = [(2, 0), (3, 1), (1, 2), (2, 3), (1, 4), (1, 5), (1, 6)];
        assert_eq!(order(1, &came), expected);
        assert_eq!(order(7, &[7, 9, 8]), [(8, 0), (9, 1), (7, 2)]);
        assert_eq!(order(0, &[5]), [(5, 0)]);
        assert_eq!(order(0, &[]), []);
    }

    #[test]
    fn one_thread_at_a_time_has_the_value() {
        let fair = Fair::new(0_u64);
        thread::scope(|scope| {
            for who in 0..8 {
                let fair = &fair;
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let mut value = fair.lock(who % 3);
                        let read = *value;
                        thread::yield_now();
                        *value = read + 1;
                    }
                });
            }
        });
        assert_eq!(*fair.lock(0), 8000);
        assert_eq!(fair.waiting(), 0);
    }

    #[test]
    fn a_thread_that_panics_gives_the_turn_on() {
        let fair = Fair::new(());
        let panicked = thread::scope(|scope| {
            let panics = scope.spawn(|| {
                let _turn = fair.lock(1);
                panic!("on purpose");
            });
            panics.join()
        });
        assert!(panicked.is_err());
        drop(fair.lock(2));
    }
}
