//! The machine for a load that is even.

use super::rates::{Verdict, more_is_better, per_ms};
use super::sampler::{Interval, RdmaSample, Sampler};

/// A wait, and what makes it worth while.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Wait {
    /// How long an event may wait, in µs.
    pub us: u32,
    /// Completions that such a wait has to bring at the rate measured.
    pub brings: u32,
}

/// This card's, in its units of 2 µs, for an event at most 50 µs late.
///
/// A wait costs its length and saves the interrupts of what it gathers, so a
/// longer one has to gather more than in proportion: nothing waits below
/// 125,000 completions a second, and 50 µs are worth while from 500,000 on,
/// where they gather 25.
pub const LOAD: [Wait; 5] = [
    Wait { us: 0, brings: 0 },
    Wait { us: 16, brings: 2 },
    Wait { us: 24, brings: 5 },
    Wait { us: 32, brings: 10 },
    Wait { us: 50, brings: 25 },
];

/// Measurements without a step up after one that did harm: at first, and at most.
const REST: (u32, u32) = (32, 1_024);

/// Chooses a wait by the rate of completions itself.
///
/// [`RdmaDim`](super::RdmaDim) asks what a change of the profile did to the
/// rate, so it needs a change to begin with: a load that is even from the start
/// stays without moderation, whatever its rate. This machine knows beforehand
/// what a wait will bring, and asks afterwards only whether it did harm.
///
/// It starts at index 0. After each measurement:
///
/// * Worse by more than 10 % than before a step up: that step is taken back. The load waits for its
///   own completions, and moderation slows it down. No step up for the next 32 measurements, or
///   until the rate has doubled; twice as many each time that happens, up to 1024, until a step did
///   no harm.
/// * The wait brings less than three quarters of what it should: down to the longest shorter one
///   that brings enough.
/// * The next wait would bring enough: a step up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LoadDim<'a> {
    waits: &'a [Wait],
    index: usize,
    /// Completions a millisecond before the step up that was just made.
    before: Option<u64>,
    /// The same, of the last step that did harm.
    harmed: u64,
    /// Measurements of rest that are left, and those of the next one.
    left: u32,
    rest: u32,
    sampler: Sampler,
}

impl<'a> LoadDim<'a> {
    /// A machine at index 0 of `waits`, such as [`LOAD`]: from the shortest to
    /// the longest, each bringing more a µs than the one before. No wait at all
    /// is in force for an empty set.
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

    /// Takes a sample; `Some` index when the wait is to change. Samples are
    /// ignored from then on until [`Self::applied`].
    ///
    /// Of bad samples the [module](super) tells.
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

    /// The wait that the last `Some` asked for is in force: the next sample
    /// begins a measurement. Without such a one, nothing.
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

    /// Whether a wait brings so many quarters of what it should, at a rate of
    /// completions a millisecond; one that there is not brings nothing.
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
