//! The machine for an even load.

use super::rates::{Verdict, more_is_better, per_ms};
use super::sampler::{Interval, RdmaSample, Sampler};

/// A wait, and the rate that makes it worthwhile.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Wait {
    /// How long an event may wait, in µs.
    pub us: u32,
    /// Completions that such a wait has to gather at the measured rate.
    pub brings: u32,
}

/// The waits of this card, in its units of 2 µs, for an event at most 50 µs late.
///
/// A wait costs its length and saves the interrupts of what it gathers. So a longer one has to
/// gather more than in proportion: nothing waits below 125,000 completions a second, and 50 µs
/// are worthwhile from 500,000 on, where they gather 25.
pub const LOAD: [Wait; 5] = [
    Wait { us: 0, brings: 0 },
    Wait { us: 16, brings: 2 },
    Wait { us: 24, brings: 5 },
    Wait { us: 32, brings: 10 },
    Wait { us: 50, brings: 25 },
];

/// Measurements without a step up after one that did harm: initial and greatest number.
const REST: (u32, u32) = (32, 1_024);

/// Chooses a wait by the rate of completions itself.
///
/// [`RdmaDim`](super::RdmaDim) checks what a change of the profile did to the rate, so it needs a
/// change to begin with: a load that is even from the start stays without moderation, whatever
/// its rate. This machine knows beforehand what a wait will gather, and afterwards only checks
/// whether it did harm.
///
/// It starts at index 0. After each measurement:
///
/// * If the rate is worse by more than 10 % than before a step up, that step is taken back. The
///   load waits for its own completions, and moderation slows it down. There is no step up for the
///   next 32 measurements, or until the rate has doubled; each time that happens the number
///   doubles, up to 1024, until a step did no harm.
/// * If the wait gathers less than three quarters of what it should, the machine goes down to the
///   longest shorter wait that gathers enough.
/// * If the next wait would gather enough, the machine steps up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LoadDim<'a> {
    waits: &'a [Wait],
    index: usize,
    /// Completions a millisecond before the step up that was just made.
    before: Option<u64>,
    /// The same for the last step that did harm.
    harmed: u64,
    /// Measurements of the current rest that are left, and those of the next rest.
    left: u32,
    rest: u32,
    sampler: Sampler,
}

impl<'a> LoadDim<'a> {
    /// A machine at index 0 of `waits`, such as [`LOAD`]: ordered from the shortest to the
    /// longest, each gathering more a µs than the previous one. For an empty set no wait is in
    /// force.
    #[must_use]
    pub const fn new(waits: &'a [Wait]) -> Self {
        Self {
            waits,
            index: 0,
            before: None,
            harmed: 0,
            left: 0,
            rest: REST.0,
            sampler: Sampler::Start,
        }
    }

    /// Takes a sample; returns the index if the wait is to change. From then on samples are
    /// ignored until [`Self::applied`].
    ///
    /// The [module](super) describes bad samples.
    #[must_use = "a wait that is not applied stops all measuring"]
    pub fn sample(&mut self, sample: RdmaSample) -> Option<usize> {
        let Interval { us, completions } = self.sampler.sample(sample)?;
        let before = self.index;
        self.decide(per_ms(completions, us));
        if self.index == before {
            return None;
        }
        self.sampler.apply();
        Some(self.index)
    }

    /// The wait that the last `Some` asked for is in force: the next sample begins a measurement.
    /// Without such a `Some` it does nothing.
    pub const fn applied(&mut self) {
        self.sampler.applied();
    }

    /// Index of the wait to have in force.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// The set of waits.
    #[must_use]
    pub const fn waits(&self) -> &'a [Wait] {
        self.waits
    }

    /// The wait to have in force, in µs.
    #[must_use]
    pub fn us(&self) -> u32 {
        self.waits.get(self.index).map_or(0, |wait| wait.us)
    }

    fn decide(&mut self, rate: u64) {
        if let Some(before) = self.before.take() {
            if more_is_better(rate, before) == Verdict::Worse {
                self.index = self.index.saturating_sub(1);
                self.harmed = before;
                self.left = self.rest;
                self.rest = self.rest.saturating_mul(2).min(REST.1);
                return;
            }
            self.rest = REST.0;
        }
        if self.left > 0 && rate >= self.harmed.saturating_mul(2) {
            self.left = 0;
        }
        if !self.brings(self.index, rate, 3) {
            self.index = (0..self.index)
                .rev()
                .find(|index| self.brings(*index, rate, 4))
                .unwrap_or(0);
        } else if self.left > 0 {
            self.left = self.left.saturating_sub(1);
        } else {
            let next = self.index.saturating_add(1);
            if self.brings(next, rate, 4) {
                self.index = next;
                self.before = Some(rate);
            }
        }
    }

    /// Whether a wait gathers this many quarters of what it should, at a rate in completions a
    /// millisecond; a wait that does not exist gathers nothing.
    fn brings(&self, index: usize, rate: u64, quarters: u64) -> bool {
        self.waits.get(index).is_some_and(|wait| {
            let brought = rate.saturating_mul(wait.us.into()).saturating_mul(4);
            let due = u64::from(wait.brings).saturating_mul(quarters);
            brought >= due.saturating_mul(1_000)
        })
    }
}

#[cfg(test)]
mod tests;
