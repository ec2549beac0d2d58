//! Numbers that a seed decides, and the seeds.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A generator (xorshift*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut this = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            this.next();
        }
        this
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Below `end`; 0 for 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end.max(1)
    }

    pub(crate) fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    pub(crate) fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())].clone()
    }

    /// Once in `times`.
    pub(crate) fn rarely(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// The seeds asked for, or the first `count`.
fn seeds(count: u64) -> Range<u64> {
    let Ok(text) = std::env::var("E810_HOSTILE_SEEDS") else {
        return 0..count;
    };
    let ends = text.split_once("..").and_then(|(from, to)| {
        let (from, to) = (from.parse().ok()?, to.parse().ok()?);
        Some(from..to)
    });
    ends.unwrap_or_else(|| panic!("E810_HOSTILE_SEEDS={text}: give FROM..TO"))
}

/// Runs `one` with each seed; the sums of what it counts.
pub(crate) fn each<const N: usize>(count: u64, one: impl Fn(u64) -> [u64; N]) -> [u64; N] {
    let mut sums = [0; N];
    for seed in seeds(count) {
        let counted = catch_unwind(AssertUnwindSafe(|| one(seed)));
        let Ok(counted) = counted else {
            panic!("seed {seed}: a panic, see above");
        };
        for (sum, counted) in sums.iter_mut().zip(counted) {
            *sum += counted;
        }
    }
    sums
}
