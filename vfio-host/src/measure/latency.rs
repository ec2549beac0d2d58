//! Latency samples: exact while they fit, then a uniform sample of all.
//!
//! A run may have a billion messages. The percentiles come from at most `KEPT` samples, in which
//! each message has the same chance to be (reservoir sampling with a fixed seed, so that the report
//! depends only on the samples). Minimum, maximum, mean, standard deviation and the histogram are
//! of all samples.

use serde::Serialize;

/// Buckets of a histogram for each power of two.
const PARTS: u64 = 8;
/// Maximum samples kept.
const KEPT: usize = 1 << 20;

/// Collects latencies in nanoseconds.
#[derive(Debug)]
pub struct Latencies {
    kept: Vec<u64>,
    seen: u64,
    min: u64,
    max: u64,
    mean: f64,
    /// Sum of the squares of the differences from the mean.
    squares: f64,
    /// Number of samples by [`bucket`], up to the largest sample.
    buckets: Vec<u64>,
    random: u64,
}

/// Samples of about the same size: an eighth of a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Bucket {
    /// Lower bound in nanoseconds, included.
    pub from_ns: u64,
    /// Upper bound in nanoseconds, excluded.
    pub below_ns: u64,
    /// Number of samples.
    pub count: u64,
}

/// The number of the bucket of a sample: each below 8 ns has its own.
const fn bucket(ns: u64) -> usize {
    let Some(power) = ns.checked_ilog2() else {
        return 0;
    };
    if ns < PARTS {
        return ns as usize;
    }
    // PARTS is 2^3, so the highest four bits select the bucket.
    let shift = power - 3;
    (shift as u64 * PARTS + (ns >> shift)) as usize
}

/// The lower bound of a bucket.
const fn begin(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PARTS {
        return bucket;
    }
    let shift = bucket / PARTS - 1;
    // The last bucket ends at the 64-bit limit.
    match (bucket % PARTS + PARTS).checked_shl(shift as u32) {
        Some(ns) if shift < 61 => ns,
        _ => u64::MAX,
    }
}

/// Latencies of a run, in nanoseconds.
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
            mean: 0.0,
            squares: 0.0,
            buckets: Vec::new(),
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
        let off = ns as f64 - self.mean;
        self.mean += off / self.seen as f64;
        self.squares += off * (ns as f64 - self.mean);
        let bucket = bucket(ns);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
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
        self.sort();
        Some(Summary {
            min: self.min,
            p50: self.rank(500)?,
            p99: self.rank(990)?,
            max: self.max,
        })
    }

    /// Smallest and largest; `None` without samples.
    #[must_use]
    pub fn ends(&self) -> Option<(u64, u64)> {
        (self.seen > 0).then_some((self.min, self.max))
    }

    /// Mean and standard deviation, of all samples.
    #[must_use]
    pub fn mean_and_deviation(&self) -> (f64, f64) {
        let variance = self.squares / self.seen.max(1) as f64;
        (self.mean, variance.sqrt())
    }

    /// The buckets that have samples.
    #[must_use]
    pub fn histogram(&self) -> Vec<Bucket> {
        let all = self.buckets.iter().enumerate();
        all.filter(|(_, count)| **count > 0)
            .map(|(bucket, count)| Bucket {
                from_ns: begin(bucket),
                below_ns: begin(bucket + 1),
                count: *count,
            })
            .collect()
    }

    /// Sorts the samples, for [`Latencies::rank`].
    pub(crate) fn sort(&mut self) {
        self.kept.sort_unstable();
    }

    /// The percentile by nearest rank, in 1/1000: the smallest sample that at least `per_mille` of
    /// 1000 samples do not exceed. Call [`Latencies::sort`] before.
    pub(crate) fn rank(&self, per_mille: usize) -> Option<u64> {
        let place = (self.kept.len() * per_mille).div_ceil(1000);
        self.kept.get(place.saturating_sub(1)).copied()
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

    #[test]
    fn every_sample_is_in_its_bucket() {
        for power in 0..64 {
            for ns in [
                1u64 << power,
                (1 << power) + 1,
                (1 << power) - 1,
                (1 << power) | (1 << power >> 1),
            ] {
                let at = bucket(ns);
                assert!(begin(at) <= ns, "{ns}");
                assert!(ns < begin(at + 1) || begin(at + 1) == u64::MAX, "{ns}");
                // An eighth at most.
                assert!(
                    (begin(at + 1) - begin(at)) as f64 <= (ns as f64 / 8.0).max(1.0),
                    "{ns}"
                );
            }
        }
        let mut all = Latencies::default();
        for ns in [100, 101, 5000] {
            all.add(ns);
        }
        let counts: Vec<_> = all
            .histogram()
            .iter()
            .map(|bucket| (bucket.from_ns, bucket.below_ns, bucket.count))
            .collect();
        assert_eq!(counts, [(96, 104, 2), (4608, 5120, 1)]);
        assert_eq!(Latencies::default().histogram(), []);
    }
}
