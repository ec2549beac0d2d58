//! How fast two processors can tell each other anything: a cache line that two
//! threads hand to and fro. No message between two of them is faster.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, available_parallelism};
use std::time::Instant;

use serde::Serialize;

/// Hand-overs in a sample: reading the clock costs as much as a few.
const BATCH: u64 = 100;
/// Samples.
const SAMPLES: u64 = 200;

/// A hand-over from one processor to another, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Floor {
    /// Smallest mean of a batch.
    pub min: u64,
    /// Median of the means.
    pub p50: u64,
}

/// A line of its own, so that nothing else moves it.
#[repr(align(128))]
struct Line(AtomicU64);

/// Measures on whatever processors the threads are on; `None` on a machine with
/// one, where they only take turns.
#[must_use]
pub fn core_to_core() -> Option<Floor> {
    if available_parallelism().map_or(1, usize::from) < 2 {
        return None;
    }
    let line = Line(AtomicU64::new(0));
    let last = SAMPLES * BATCH * 2;
    // Even numbers are written here, odd ones there.
    let hand = |mut turn: u64| {
        let mut samples = Vec::new();
        let mut begun = Instant::now();
        while turn < last {
            while line.0.load(Ordering::Acquire) != turn {
                spin_loop();
            }
            line.0.store(turn + 1, Ordering::Release);
            turn += 2;
            if turn % (2 * BATCH) < 2 {
                let now = Instant::now();
                // A batch is there and back so many times.
                let ns = (now - begun).as_nanos() / u128::from(2 * BATCH);
                samples.push(u64::try_from(ns).unwrap_or(u64::MAX));
                begun = now;
            }
        }
        samples
    };
    let mut samples = thread::scope(|scope| {
        let there = scope.spawn(|| hand(1));
        let samples = hand(0);
        // Its samples are the same ones.
        drop(there.join());
        samples
    });
    samples.sort_unstable();
    Some(Floor {
        min: samples.first().copied()?,
        p50: samples.get(samples.len() / 2).copied()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_floor_where_there_are_two_processors() {
        match core_to_core() {
            Some(floor) => assert!(floor.min > 0 && floor.min <= floor.p50, "{floor:?}"),
            None => assert_eq!(available_parallelism().unwrap().get(), 1),
        }
    }
}
