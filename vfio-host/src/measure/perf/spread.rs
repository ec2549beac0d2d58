//! Statistics of latencies, in the figures that existing tools print.

use serde::Serialize;

use crate::measure::latency::Latencies;

/// Latencies of a run, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// Smallest.
    pub min: u64,
    /// Largest.
    pub max: u64,
    /// Median.
    pub typical: u64,
    /// Mean.
    pub average: f64,
    /// Standard deviation.
    pub stdev: f64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
}

impl Spread {
    /// Of `samples`; `None` without any.
    #[must_use]
    pub fn of(mut samples: Latencies) -> Option<Self> {
        samples.sort();
        let (min, max) = samples.ends()?;
        let (average, stdev) = samples.mean_and_deviation();
        Some(Self {
            min,
            max,
            typical: samples.rank(500)?,
            average,
            stdev,
            p90: samples.rank(900)?,
            p99: samples.rank(990)?,
            p999: samples.rank(999)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(samples: impl IntoIterator<Item = u64>) -> Option<Spread> {
        let mut all = Latencies::default();
        samples.into_iter().for_each(|ns| all.add(ns));
        Spread::of(all)
    }

    #[test]
    fn figures_of_a_known_spread() {
        let known = spread((1..=1000).rev()).unwrap();
        assert_eq!((known.min, known.max, known.typical), (1, 1000, 500));
        assert_eq!((known.p90, known.p99, known.p999), (900, 990, 999));
        assert!((known.average - 500.5).abs() < 1e-9);
        assert!((known.stdev - 288.675).abs() < 0.001, "{known:?}");
        assert_eq!(spread([7]).unwrap().stdev, 0.0);
        assert_eq!(spread([]), None);
    }
}
