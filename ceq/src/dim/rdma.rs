//! The machine for completion queues.

use super::ladder::{Direction, Ladder};
use super::profile::{NoProfiles, Profile};
use super::rates::{Verdict, more_is_better, per_ms, percent};
use super::sampler::{EVENTS, Interval, RdmaSample, Sampler};

/// Completions per millisecond, and completions per 100 events. Zero before the first
/// measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
struct Rates {
    completions: u64,
    ratio: u64,
}

/// Chooses a profile by the rate of completions (data-path 9.1).
///
/// It starts at index 0. Each measurement is compared with the previous one: first its
/// completions per millisecond, then its completions per event; more of either is better.
///
/// * Better: another step the same way, at first to the right.
/// * Worse: a step the other way.
/// * Same, within 10 %: stay, or go back to index 0 if there are at most index/2 completions per
///   event.
///
/// A step beyond an edge only turns. Two things follow from these rules: a load that is perfectly
/// even from the first sample on stays at index 0, whatever its rate; and one completion per
/// event leads back to 0 from index 2 and above, but not from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RdmaDim<'a> {
    ladder: Ladder<'a>,
    direction: Direction,
    previous: Rates,
    sampler: Sampler,
}

impl<'a> RdmaDim<'a> {
    /// A machine at index 0 of `profiles`, which are ordered from the shortest
    /// wait to the longest, such as [`RDMA`](super::RDMA). The caller applies
    /// profile 0 first.
    ///
    /// # Errors
    /// [`NoProfiles`] when the set is empty.
    pub const fn new(profiles: &'a [Profile]) -> Result<Self, NoProfiles> {
        match Ladder::at_first(profiles) {
            Ok(ladder) => Ok(Self {
                ladder,
                direction: Direction::Right,
                previous: Rates {
                    completions: 0,
                    ratio: 0,
                },
                sampler: Sampler::Start,
            }),
            Err(error) => Err(error),
        }
    }

    /// Takes a sample; returns the index if the profile is to change. From then on samples are
    /// ignored until [`Self::applied`].
    ///
    /// The [module](super) describes bad samples.
    #[must_use = "a profile that is not applied stops all measuring"]
    pub fn sample(&mut self, sample: RdmaSample) -> Option<usize> {
        let ended = self.sampler.sample(sample)?;
        let before = self.ladder.index();
        self.decide(Rates::of(ended));
        let index = self.ladder.index();
        if index == before {
            return None;
        }
        self.sampler.apply();
        Some(index)
    }

    /// The profile that the last `Some` asked for is in force: the next sample begins a
    /// measurement. Without such a `Some` it does nothing.
    pub const fn applied(&mut self) {
        self.sampler.applied();
    }

    /// Index of the profile to have in force, below the number of profiles.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.ladder.index()
    }

    /// The profile to have in force.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.ladder.profile()
    }

    /// The set it chooses from.
    #[must_use]
    pub const fn profiles(&self) -> &'a [Profile] {
        self.ladder.profiles()
    }

    fn decide(&mut self, now: Rates) {
        match now.against(self.previous) {
            Verdict::Same => {
                // An index that 64 bits cannot hold does not exist.
                let index = u64::try_from(self.ladder.index()).unwrap_or(u64::MAX);
                if now.ratio <= index.saturating_mul(50) {
                    self.ladder.reset();
                }
            }
            Verdict::Worse => {
                self.direction = self.direction.turned();
                self.step();
            }
            Verdict::Better => self.step(),
        }
        self.previous = now;
    }

    fn step(&mut self) {
        if !self.ladder.step(self.direction) {
            self.direction = self.direction.turned();
        }
    }
}

impl Rates {
    fn of(Interval { us, completions }: Interval) -> Self {
        let completions = per_ms(completions, us);
        Self {
            completions,
            ratio: percent(completions, per_ms(EVENTS, us)),
        }
    }

    fn against(self, before: Self) -> Verdict {
        if before.completions == 0 {
            // Nothing to compare with: it is the first measurement, or the previous one had no
            // completions.
            return Verdict::Same;
        }
        more_is_better(self.completions, before.completions)
            .or_else(|| more_is_better(self.ratio, before.ratio))
    }
}

#[cfg(test)]
mod tests;
