//! The profiles that a machine chooses from.

/// Limits to how long an event may wait.
///
/// The machines never look inside: a set is any slice of these, from the
/// shortest wait to the longest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Profile {
    /// The longest an event waits, in µs.
    pub us: u32,
    /// The most completions that wait for one event.
    pub count: u32,
}

impl Profile {
    /// An event after `us` µs or `count` completions, whichever is first.
    #[must_use]
    pub const fn new(us: u32, count: u32) -> Self {
        Self { us, count }
    }

    /// An event after `us` µs, for a card that cannot count: `count` is
    /// `u32::MAX`.
    #[must_use]
    pub const fn by_time(us: u32) -> Self {
        Self::new(us, u32::MAX)
    }
}

/// Linux' set for completion queues (data-path 9.1).
pub const RDMA: [Profile; 9] = [
    Profile::new(1, 1),
    Profile::new(1, 4),
    Profile::new(2, 4),
    Profile::new(2, 8),
    Profile::new(4, 8),
    Profile::new(16, 8),
    Profile::new(16, 16),
    Profile::new(32, 16),
    Profile::new(32, 32),
];

/// A set for this card, which delays by time only, in units of 2 µs.
pub const CARD: [Profile; 7] = [
    Profile::by_time(0),
    Profile::by_time(2),
    Profile::by_time(4),
    Profile::by_time(8),
    Profile::by_time(16),
    Profile::by_time(32),
    Profile::by_time(50),
];

/// A set of profiles was empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[error(
    "the set of moderation profiles is empty: give at least one, from the shortest wait to the longest"
)]
pub struct NoProfiles;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_that_of_the_table() {
        // Columns, where the table of data-path 9.1 has pairs.
        let us = [1, 1, 2, 2, 4, 16, 16, 32, 32];
        let counts = [1, 4, 4, 8, 8, 8, 16, 16, 32];
        assert_eq!(RDMA.map(|one| one.us), us);
        assert_eq!(RDMA.map(|one| one.count), counts);
        assert!(us.is_sorted(), "from the shortest wait to the longest");
    }
}
