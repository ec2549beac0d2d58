//! A limit of completions on a card that does not count them.

use super::sampler::{Interval, RdmaSample, Sampler};

/// How long an interrupt may wait so that `count` completions make one, but never above `period`
/// µs: the moderation of a completion queue in verbs. `completions` came in `us` µs.
///
/// `count` 0 is no limit; 1 is an interrupt for each. If nothing came there is no rate, and the
/// period holds.
#[must_use]
pub fn interval_us(count: u32, period: u32, completions: u32, us: u64) -> u32 {
    match count {
        0 => period,
        1 => 0,
        _ => u64::from(count)
            .saturating_mul(us)
            .checked_div(completions.into())
            .and_then(|us| u32::try_from(us).ok())
            .map_or(period, |us| us.min(period)),
    }
}

/// Follows the rate with [`interval_us`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counted {
    count: u32,
    period: u32,
    us: u32,
    sampler: Sampler,
}

impl Counted {
    /// At most `count` completions or `period` µs for an interrupt. Until the first measurement
    /// each completion makes one.
    #[must_use]
    pub const fn new(count: u32, period: u32) -> Self {
        Self {
            count,
            period,
            us: 0,
            sampler: Sampler::Start,
        }
    }

    /// Takes a sample; returns the interval in µs if it is to change. There is no `applied` for
    /// it: its effect on the rate of completions does not matter here.
    ///
    /// The [module](super) describes bad samples.
    #[must_use = "the interval is to be programmed"]
    pub fn sample(&mut self, sample: RdmaSample) -> Option<u32> {
        let Interval { us, completions } = self.sampler.sample(sample)?;
        let interval = interval_us(self.count, self.period, completions, us.get());
        if interval == self.us {
            return None;
        }
        self.us = interval;
        Some(interval)
    }

    /// The interval to have in force, in µs.
    #[must_use]
    pub const fn us(&self) -> u32 {
        self.us
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use e810_hal::Ns;
    use proptest::prelude::*;

    #[test]
    fn an_interval_is_what_so_many_completions_take() {
        for (count, period, completions, us, interval) in [
            // A million a second.
            (16, 50, 1_000, 1_000, 16),
            (64, 50, 1_000, 1_000, 50),
            // A thousand: the period ends first.
            (16, 50, 1, 1_000, 50),
            (16, 50_000, 1, 1_000, 16_000),
            // Rounded down: not more than `count`.
            (3, 50, 7, 10, 4),
            (1, 50, 1_000, 1_000, 0),
            (0, 50, 1_000, 1_000, 50),
            (16, 50, 0, 1_000, 50),
            (16, 50, 5, 0, 0),
            (u32::MAX, u32::MAX, 1, u64::MAX, u32::MAX),
            (16, 0, 1_000, 1_000, 0),
        ] {
            assert_eq!(interval_us(count, period, completions, us), interval);
        }
    }

    #[test]
    fn it_follows_the_rate() {
        let mut counted = Counted::new(16, 50);
        let (mut ns, mut events, mut completions) = (0, 0, 0);
        let mut asked = std::vec::Vec::new();
        for (each_ns, an_event, times) in [(1_000, 1, 200), (1_000, 20, 200), (1_000_000, 1, 200)] {
            for _ in 0..times {
                let sample = RdmaSample {
                    time: Ns(ns),
                    events,
                    completions,
                };
                asked.extend(counted.sample(sample));
                events += 1;
                completions += an_event;
                ns += each_ns * u64::from(an_event);
            }
        }
        // The measurement that contains the fall sees neither rate.
        assert_eq!((asked, counted.us()), (std::vec![16, 50], 50));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn neither_limit_is_passed(count in 2u32.., period: u32, completions in 1u32.., us in 0u64..1 << 40) {
            let interval = interval_us(count, period, completions, us);
            prop_assert!(interval <= period);
            // Completions at that rate in the interval.
            let came = u128::from(interval) * u128::from(completions);
            prop_assert!(us == 0 || came <= u128::from(count) * u128::from(us));
        }
    }
}
