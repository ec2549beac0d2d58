//! The machine for queues of packets.

use e810_hal::Ns;

use super::ladder::{Direction, Ladder};
use super::profile::{NoProfiles, Profile};
use super::rates::{Verdict, fewer_is_better, more_is_better, per_ms};
use super::sampler::{EVENTS, Interval, Mark, Sampler};

/// Counters of a queue of packets at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NetSample {
    /// When they were read.
    pub time: Ns,
    /// Events so far; wraps.
    pub events: u32,
    /// Packets so far; wraps.
    pub packets: u32,
    /// Bytes so far; wraps. Without them nothing is ever better or worse: who
    /// counts none gives the packets here too.
    pub bytes: u32,
}

/// What a millisecond brought. Zero before the first measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
struct Rates {
    bytes: u64,
    packets: u64,
    events: u64,
}

/// What the machine is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Tune {
    /// Looking for a better profile that way.
    Going(Direction),
    /// At the best one, until the load changes.
    OnTop,
    /// Has searched too long: stays for as many measurements as it is tired.
    Tired,
}

/// Chooses a profile by bytes, packets and events (data-path 9.2).
///
/// It starts at index 1 (0 where there is only one profile), parked on top.
/// Each measurement is compared with the one before: its bytes a millisecond,
/// then packets, both better when more, then events, better when fewer. Bytes
/// or packets after none are better, none after none is the same.
///
/// * Going: not better, turn. Then park on top when the best profile was just
///   passed and stepped back to, that is after one step this way and more than
///   one the other; otherwise step, and park on top at an edge. Where twice as
///   many steps as there are profiles led to no top, park tired.
/// * Parked on top: a load that is better or worse than the last one before
///   parking ends it.
/// * Parked tired: ends after as many measurements as steps had been made.
///
/// After parking it goes left, from index 0 right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NetDim<'a> {
    ladder: Ladder<'a>,
    tune: Tune,
    /// Steps made since the last turn that way, or since parking.
    left: usize,
    right: usize,
    /// Steps made since the last top; while parked tired, measurements left.
    tired: usize,
    previous: Rates,
    sampler: Sampler<2>,
}

impl<'a> NetDim<'a> {
    /// A machine for `profiles`, which are ordered from the shortest wait to
    /// the longest, such as [`NET_RX_EQE`](super::NET_RX_EQE). The caller
    /// applies [`Self::profile`] first.
    ///
    /// # Errors
    /// [`NoProfiles`] when the set is empty.
    pub const fn new(profiles: &'a [Profile]) -> Result<Self, NoProfiles> {
        match Ladder::at_second(profiles) {
            Ok(ladder) => Ok(Self {
                ladder,
                tune: Tune::OnTop,
                left: 0,
                right: 0,
                tired: 0,
                previous: Rates {
                    bytes: 0,
                    packets: 0,
                    events: 0,
                },
                sampler: Sampler::Start,
            }),
            Err(error) => Err(error),
        }
    }

    /// Takes a sample; `Some` index when the profile is to change. Samples are
    /// ignored from then on until [`Self::applied`].
    ///
    /// Of bad samples the [module](super) tells.
    #[must_use = "a profile that is not applied stops all measuring"]
    pub fn sample(&mut self, sample: NetSample) -> Option<usize> {
        let ended = self.sampler.sample(Mark {
            time: sample.time,
            events: sample.events,
            counts: [sample.packets, sample.bytes],
        })?;
        let before = self.ladder.index();
        self.decide(Rates::of(ended));
        let index = self.ladder.index();
        if index == before {
            return None;
        }
        self.sampler.apply();
        Some(index)
    }

    /// The profile that the last `Some` asked for is in force: the next sample
    /// begins a measurement. Without such a one, nothing.
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
        let verdict = now.against(self.previous);
        let was = self.tune;
        match was {
            Tune::OnTop => {
                if verdict != Verdict::Same {
                    self.leave();
                }
            }
            Tune::Tired => {
                self.tired = self.tired.saturating_sub(1);
                if self.tired == 0 {
                    self.leave();
                }
            }
            Tune::Going(direction) if verdict == Verdict::Better => self.go(direction),
            Tune::Going(direction) => {
                let direction = direction.turned();
                *self.steps(direction) = 0;
                self.go(direction);
            }
        }
        // While on top the load is held against that of the top, not against
        // its last measurement: slow change adds up.
        if (was, self.tune) != (Tune::OnTop, Tune::OnTop) {
            self.previous = now;
        }
    }

    /// Goes on that way, unless there is a reason to park.
    fn go(&mut self, direction: Direction) {
        self.tune = Tune::Going(direction);
        let back = *self.steps(direction) == 1 && *self.steps(direction.turned()) > 1;
        let limit = self.ladder.profiles().len().saturating_mul(2);
        if !back && self.tired >= limit {
            self.park(Tune::Tired);
        } else if back || !self.step(direction) {
            self.park(Tune::OnTop);
            self.tired = 0;
        }
    }

    fn park(&mut self, tune: Tune) {
        (self.tune, self.left, self.right) = (tune, 0, 0);
    }

    fn leave(&mut self) {
        let direction = match self.ladder.index() {
            0 => Direction::Right,
            _ => Direction::Left,
        };
        self.tune = Tune::Going(direction);
        // A set of one has no step; the next measurement parks again.
        self.step(direction);
    }

    fn step(&mut self, direction: Direction) -> bool {
        let stepped = self.ladder.step(direction);
        if stepped {
            let steps = self.steps(direction);
            *steps = steps.saturating_add(1);
            self.tired = self.tired.saturating_add(1);
        }
        stepped
    }

    const fn steps(&mut self, direction: Direction) -> &mut usize {
        match direction {
            Direction::Left => &mut self.left,
            Direction::Right => &mut self.right,
        }
    }
}

impl Rates {
    fn of(
        Interval {
            us,
            counts: [packets, bytes],
        }: Interval<2>,
    ) -> Self {
        Self {
            bytes: per_ms(bytes, us),
            packets: per_ms(packets, us),
            events: per_ms(EVENTS, us),
        }
    }

    fn against(self, before: Self) -> Verdict {
        more_than_before(self.bytes, before.bytes, || {
            more_than_before(self.packets, before.packets, || {
                fewer_is_better(self.events, before.events)
            })
        })
    }
}

/// More is better, also after nothing; `next` decides where there was
/// something and it is the same.
fn more_than_before(now: u64, before: u64, next: impl FnOnce() -> Verdict) -> Verdict {
    match (before, now) {
        (0, 0) => Verdict::Same,
        (0, _) => Verdict::Better,
        _ => more_is_better(now, before).or_else(next),
    }
}

#[cfg(test)]
mod tests;
