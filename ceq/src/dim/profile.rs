//! What a machine chooses among.

/// Limits to how long an event may wait.
///
/// The machines never look inside: a set is any slice of these, from the
/// shortest wait to the longest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Profile {
    /// The longest an event waits, in µs.
    pub us: u32,
    /// The most completions (packets, for [`NetDim`](super::NetDim)) that wait
    /// for one event.
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

/// Linux' set for received packets, the wait counted from the event before
/// (data-path 9.2).
pub const NET_RX_EQE: [Profile; 5] = [
    Profile::new(1, 256),
    Profile::new(8, 256),
    Profile::new(64, 256),
    Profile::new(128, 256),
    Profile::new(256, 256),
];

/// Linux' set for received packets, the wait counted from the last completion
/// (data-path 9.2).
pub const NET_RX_CQE: [Profile; 5] = [
    Profile::new(2, 256),
    Profile::new(8, 128),
    Profile::new(16, 64),
    Profile::new(32, 64),
    Profile::new(64, 64),
];

/// Linux' set for sent packets, the wait counted from the event before
/// (data-path 9.2).
pub const NET_TX_EQE: [Profile; 5] = [
    Profile::new(1, 128),
    Profile::new(8, 128),
    Profile::new(32, 128),
    Profile::new(64, 128),
    Profile::new(128, 128),
];

/// Linux' set for sent packets, the wait counted from the last completion
/// (data-path 9.2).
pub const NET_TX_CQE: [Profile; 5] = [
    Profile::new(5, 128),
    Profile::new(8, 64),
    Profile::new(16, 32),
    Profile::new(32, 32),
    Profile::new(64, 32),
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
    use std::vec::Vec;

    #[test]
    fn sets_are_those_of_the_tables() {
        // Columns, where the tables of data-path 9 have pairs.
        for (set, us, counts) in [
            (
                &RDMA[..],
                &[1, 1, 2, 2, 4, 16, 16, 32, 32][..],
                &[1, 4, 4, 8, 8, 8, 16, 16, 32][..],
            ),
            (&NET_RX_EQE, &[1, 8, 64, 128, 256], &[256; 5]),
            (&NET_RX_CQE, &[2, 8, 16, 32, 64], &[256, 128, 64, 64, 64]),
            (&NET_TX_EQE, &[1, 8, 32, 64, 128], &[128; 5]),
            (&NET_TX_CQE, &[5, 8, 16, 32, 64], &[128, 64, 32, 32, 32]),
        ] {
            assert_eq!(set.iter().map(|one| one.us).collect::<Vec<_>>(), us);
            assert_eq!(set.iter().map(|one| one.count).collect::<Vec<_>>(), counts);
            assert!(us.is_sorted(), "from the shortest wait to the longest");
        }
    }
}
