//! Latency samples: exact while they fit, then a uniform sample of all.
//!
//! A run may have a billion messages; the percentiles come from at most
//! `KEPT` samples, chosen so that each message had the same chance
//! (reservoir sampling with a fixed seed, so that a run's report depends on
//! its samples alone). Minimum and maximum are exact.

use serde::Serialize;

/// Samples kept at most.
const KEPT: usize = 1 << 20;

/// Collects latencies in nanoseconds.
#[derive(Debug)]
pub struct Latencies {
    kept: Vec<u64>,
    seen: u64,
    min: u64,
    max: u64,
    random: u64,
}

/// What a run's latencies were, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Summary {
    /// Smallest.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            seen: 0,
            min: u64::MAX,
            max: 0,
            random: 0x9E37_79B9_7F4A_7C15,
        }
    }
}

impl Latencies {
    /// Takes one sample.
    pub fn add(&mut self, ns: u64) {
        self.seen += 1;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        if self.kept.len() < KEPT {
            self.kept.push(ns);
            return;
        }
        let place = self.next_random() % self.seen;
        if let Some(slot) = usize::try_from(place)
            .ok()
            .and_then(|i| self.kept.get_mut(i))
        {
            *slot = ns;
        }
    }

    /// The summary; `None` without samples.
    #[must_use]
    pub fn summary(mut self) -> Option<Summary> {
        self.kept.sort_unstable();
        let last = self.kept.len().checked_sub(1)?;
        // Nearest rank: the smallest sample that at least p % do not exceed.
        let rank = |percent: usize| {
            self.kept
                .get(
                    (self.kept.len() * percent)
                        .div_ceil(100)
                        .saturating_sub(1)
                        .min(last),
                )
                .copied()
        };
        Some(Summary {
            min: self.min,
            p50: rank(50)?,
            p99: rank(99)?,
            max: self.max,
        })
    }

    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_nearest() {
        let mut all = Latencies::default();
        for ns in (1..=100).rev() {
            all.add(ns);
        }
        assert_eq!(
            all.summary(),
            Some(Summary {
                min: 1,
                p50: 50,
                p99: 99,
                max: 100
            })
        );
        assert_eq!(Latencies::default().summary(), None);
        let mut one = Latencies::default();
        one.add(7);
        assert_eq!(
            one.summary(),
            Some(Summary {
                min: 7,
                p50: 7,
                p99: 7,
                max: 7
            })
        );
    }

    #[test]
    fn a_long_run_keeps_a_fair_sample() {
        let mut all = Latencies::default();
        let count = KEPT as u64 * 3;
        for ns in 0..count {
            all.add(ns);
        }
        let summary = all.summary().unwrap();
        assert_eq!((summary.min, summary.max), (0, count - 1));
        let half = count / 2;
        assert!(summary.p50.abs_diff(half) < count / 100, "{summary:?}");
    }
}
