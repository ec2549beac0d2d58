//! A place in a set of profiles, and steps from it.

use super::profile::{NoProfiles, Profile};

/// Which way a step goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Direction {
    /// To a shorter wait.
    Left,
    /// To a longer wait.
    Right,
}

impl Direction {
    pub(super) const fn turned(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// The profiles, and a copy of the chosen one, so that no index has to be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Ladder<'a> {
    profiles: &'a [Profile],
    index: usize,
    profile: Profile,
}

impl<'a> Ladder<'a> {
    /// At the first profile.
    pub(super) const fn at_first(profiles: &'a [Profile]) -> Result<Self, NoProfiles> {
        let [profile, ..] = profiles else {
            return Err(NoProfiles);
        };
        Ok(Self {
            profiles,
            index: 0,
            profile: *profile,
        })
    }

    pub(super) const fn profiles(&self) -> &'a [Profile] {
        self.profiles
    }

    pub(super) const fn index(&self) -> usize {
        self.index
    }

    pub(super) const fn profile(&self) -> Profile {
        self.profile
    }

    /// One step; returns `false` at the edge, where it stays.
    pub(super) fn step(&mut self, to: Direction) -> bool {
        match to {
            Direction::Left => self
                .index
                .checked_sub(1)
                .is_some_and(|index| self.go(index)),
            Direction::Right => self.go(self.index.saturating_add(1)),
        }
    }

    /// Back to the first profile.
    pub(super) fn reset(&mut self) {
        self.go(0);
    }

    fn go(&mut self, index: usize) -> bool {
        let Some(profile) = self.profiles.get(index) else {
            return false;
        };
        (self.index, self.profile) = (index, *profile);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Direction::{Left, Right};
    use super::*;

    const THREE: [Profile; 3] = [
        Profile::by_time(0),
        Profile::by_time(4),
        Profile::by_time(8),
    ];

    #[test]
    fn steps_end_at_the_edges() {
        let mut ladder = Ladder::at_first(&THREE).unwrap();
        let mut places = std::vec::Vec::new();
        for to in [Left, Right, Right, Right, Left, Left, Left] {
            let stepped = ladder.step(to);
            assert_eq!(ladder.profile(), THREE[ladder.index()]);
            places.push((stepped, ladder.index()));
        }
        assert_eq!(
            places,
            [
                (false, 0),
                (true, 1),
                (true, 2),
                (false, 2),
                (true, 1),
                (true, 0),
                (false, 0)
            ]
        );
    }

    #[test]
    fn an_empty_set_has_no_place() {
        assert_eq!(Ladder::at_first(&[]), Err(NoProfiles));
    }

    #[test]
    fn back_to_the_first_from_anywhere() {
        for steps in 0..3 {
            let mut ladder = Ladder::at_first(&THREE).unwrap();
            for _ in 0..steps {
                assert!(ladder.step(Right));
            }
            ladder.reset();
            assert_eq!((ladder.index(), ladder.profile()), (0, THREE[0]));
        }
    }
}
