//! When a measurement begins and ends.

use core::num::NonZeroU64;

use e810_hal::Ns;

/// Events that make a measurement.
pub const EVENTS: u32 = 64;

/// Counters of a completion queue at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RdmaSample {
    /// When they were read.
    pub time: Ns,
    /// Events so far; wraps.
    pub events: u32,
    /// Completions so far; wraps.
    pub completions: u32,
}

/// A measurement: what was counted in how many µs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Interval {
    pub(super) us: NonZeroU64,
    pub(super) completions: u32,
}

/// Cuts samples into measurements (module `dim`, Measurements).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Sampler {
    /// The next sample begins a measurement.
    Start,
    /// A measurement is under way since this sample.
    Measure(RdmaSample),
    /// A profile is being applied; samples say nothing.
    Apply,
}

impl Sampler {
    /// Takes a sample; returns the measurement that it ends, and begins the next with it.
    pub(super) fn sample(&mut self, now: RdmaSample) -> Option<Interval> {
        let start = match *self {
            Self::Apply => return None,
            Self::Start => {
                *self = Self::Measure(now);
                return None;
            }
            Self::Measure(start) => start,
        };
        let events = now.events.wrapping_sub(start.events);
        if now.time < start.time || events > 1 << 31 {
            *self = Self::Measure(now);
            return None;
        }
        if events < EVENTS {
            return None;
        }
        let elapsed = now.time - start.time;
        let us = NonZeroU64::new(elapsed.0 / 1_000)?;
        *self = Self::Measure(now);
        Some(Interval {
            us,
            completions: now.completions.wrapping_sub(start.completions),
        })
    }

    /// A profile is to be applied: samples are ignored until [`Self::applied`].
    pub(super) const fn apply(&mut self) {
        *self = Self::Apply;
    }

    /// The profile was applied; nothing happens if none was to be.
    pub(super) const fn applied(&mut self) {
        if let Self::Apply = self {
            *self = Self::Start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(ns: u64, events: u32, completions: u32) -> RdmaSample {
        RdmaSample {
            time: Ns(ns),
            events,
            completions,
        }
    }

    fn interval(us: u64, completions: u32) -> Interval {
        Interval {
            us: NonZeroU64::new(us).unwrap(),
            completions,
        }
    }

    /// Phase, sample, measurement and phase after it.
    #[test]
    fn every_phase_with_every_kind_of_sample() {
        let start = mark(50_000, 100, 7);
        let measuring = Sampler::Measure(start);
        for (name, before, now, ended, after) in [
            ("first", Sampler::Start, start, None, measuring),
            (
                "while applying",
                Sampler::Apply,
                start,
                None,
                Sampler::Apply,
            ),
            (
                "63 events",
                measuring,
                mark(90_000, 163, 9),
                None,
                measuring,
            ),
            (
                "64 events",
                measuring,
                mark(90_000, 164, 9),
                Some(interval(40, 2)),
                Sampler::Measure(mark(90_000, 164, 9)),
            ),
            (
                "many events, part of a µs",
                measuring,
                mark(91_999, 9_000, 7),
                Some(interval(41, 0)),
                Sampler::Measure(mark(91_999, 9_000, 7)),
            ),
            ("no time", measuring, mark(50_000, 164, 9), None, measuring),
            (
                "less than 1 µs",
                measuring,
                mark(50_999, 164, 9),
                None,
                measuring,
            ),
            (
                "1 µs",
                measuring,
                mark(51_000, 164, 9),
                Some(interval(1, 2)),
                Sampler::Measure(mark(51_000, 164, 9)),
            ),
            (
                "time back",
                measuring,
                mark(49_999, 164, 9),
                None,
                Sampler::Measure(mark(49_999, 164, 9)),
            ),
            (
                "time back before enough events",
                measuring,
                mark(0, 101, 9),
                None,
                Sampler::Measure(mark(0, 101, 9)),
            ),
            (
                "events back",
                measuring,
                mark(90_000, 99, 9),
                None,
                Sampler::Measure(mark(90_000, 99, 9)),
            ),
            (
                "2^31 events",
                measuring,
                mark(90_000, 100 + (1 << 31), 9),
                Some(interval(40, 2)),
                Sampler::Measure(mark(90_000, 100 + (1 << 31), 9)),
            ),
            (
                "2^31 + 1 events",
                measuring,
                mark(90_000, 101 + (1 << 31), 9),
                None,
                Sampler::Measure(mark(90_000, 101 + (1 << 31), 9)),
            ),
            (
                "counter wraps",
                Sampler::Measure(mark(0, u32::MAX - 3, u32::MAX)),
                mark(2_000, 60, 4),
                Some(interval(2, 5)),
                Sampler::Measure(mark(2_000, 60, 4)),
            ),
            (
                "the longest time",
                Sampler::Measure(mark(0, 0, 0)),
                mark(u64::MAX, 64, u32::MAX),
                Some(interval(u64::MAX / 1_000, u32::MAX)),
                Sampler::Measure(mark(u64::MAX, 64, u32::MAX)),
            ),
        ] {
            let mut sampler = before;
            assert_eq!(sampler.sample(now), ended, "{name}");
            assert_eq!(sampler, after, "{name}");
        }
    }

    #[test]
    fn applied_ends_only_applying() {
        let measuring = Sampler::Measure(mark(1, 2, 3));
        for (before, after) in [
            (Sampler::Start, Sampler::Start),
            (measuring, measuring),
            (Sampler::Apply, Sampler::Start),
        ] {
            let mut sampler = before;
            sampler.applied();
            assert_eq!(sampler, after);
        }
        let mut sampler = measuring;
        sampler.apply();
        assert_eq!(sampler, Sampler::Apply);
    }
}
