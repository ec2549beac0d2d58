//! How latencies are spread, in the figures that existing tools print.

use serde::Serialize;

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
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
}

impl Spread {
    /// Of `samples`; `None` without any.
    #[must_use]
    pub fn of(mut samples: Vec<u64>) -> Option<Self> {
        samples.sort_unstable();
        let count = samples.len();
        // Nearest rank: the smallest sample that at least so many do not exceed.
        let rank = |per_mille: usize| {
            let place = (count * per_mille).div_ceil(1000).saturating_sub(1);
            samples.get(place).copied()
        };
        let mean = samples.iter().map(|ns| *ns as f64).sum::<f64>() / count as f64;
        let square = |ns: &u64| (*ns as f64 - mean).powi(2);
        let variance = samples.iter().map(square).sum::<f64>() / count as f64;
        Some(Self {
            min: *samples.first()?,
            max: *samples.last()?,
            typical: rank(500)?,
            average: mean,
            stdev: variance.sqrt(),
            p99: rank(990)?,
            p999: rank(999)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_known_spread() {
        let spread = Spread::of((1..=1000).rev().collect()).unwrap();
        assert_eq!((spread.min, spread.max, spread.typical), (1, 1000, 500));
        assert_eq!((spread.p99, spread.p999), (990, 999));
        assert_eq!(spread.average, 500.5);
        assert!((spread.stdev - 288.675).abs() < 0.001, "{spread:?}");
        assert_eq!(Spread::of(vec![7]).unwrap().stdev, 0.0);
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
