//! The lower bound of latency between two CPUs: two threads pass a cache line to and fro. No
//! message between them is faster.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use serde::Serialize;

use e810_backends::host::cpus;

/// Hand-overs in a sample: reading the clock costs as much as a few.
const BATCH: u64 = 100;
const SAMPLES: u64 = 200;
/// Polls before the thread yields the processor.
const PATIENCE: u32 = 10_000;

/// A hand-over from one processor to another, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct CoreToCore {
    /// The two processors.
    pub cpus: [usize; 2],
    /// Smallest mean of a batch.
    pub min: u64,
    /// Median of the means; far above the smallest if others use the processors too.
    pub p50: u64,
}

/// Aligned to a cache line of its own, so that nothing else moves it.
#[repr(align(128))]
struct Line(AtomicU64);

/// The first two processors that this thread may use.
fn two_cpus() -> Option<[usize; 2]> {
    let mut allowed = cpus::allowed()?.into_iter();
    Some([allowed.next()?, allowed.next()?])
}

/// Measures between the first two processors that this thread may use; `None` if there is only one.
#[must_use]
pub fn core_to_core() -> Option<CoreToCore> {
    let cpus = two_cpus()?;
    let line = Line(AtomicU64::new(0));
    let last = SAMPLES * BATCH * 2;
    // One thread writes even numbers, the other one odd numbers.
    let hand = |mut turn: u64, cpu| {
        let stays = cpus::stay_on(cpu);
        let mut samples = Vec::new();
        let mut begun = Instant::now();
        while turn < last {
            let mut spins = 0u32;
            while line.0.load(Ordering::Acquire) != turn {
                spin_loop();
                spins = spins.wrapping_add(1);
                // Much longer than a hand-over: the other thread waits for a processor.
                if spins.is_multiple_of(PATIENCE) {
                    thread::yield_now();
                }
            }
            line.0.store(turn + 1, Ordering::Release);
            turn += 2;
            if turn % (2 * BATCH) < 2 {
                let now = Instant::now();
                // A batch has this many round trips.
                let ns = (now - begun).as_nanos() / u128::from(2 * BATCH);
                samples.push(u64::try_from(ns).unwrap_or(u64::MAX));
                begun = now;
            }
        }
        stays.then_some(samples)
    };
    // Two new threads, because they are pinned to their processors.
    let (one, other) = thread::scope(|scope| {
        let [here, there] = cpus;
        let one = scope.spawn(move || hand(0, here));
        let other = scope.spawn(move || hand(1, there));
        (one.join(), other.join())
    });
    let (mut samples, _) = one.ok().flatten().zip(other.ok().flatten())?;
    samples.sort_unstable();
    Some(CoreToCore {
        cpus,
        min: samples.first().copied()?,
        p50: samples.get(samples.len() / 2).copied()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_floor_where_there_are_two_processors() {
        let floor = core_to_core();
        assert_eq!(floor.map(|floor| floor.cpus), two_cpus());
        if let Some(floor) = floor {
            assert!(floor.min > 0 && floor.min <= floor.p50, "{floor:?}");
        }
    }
}
