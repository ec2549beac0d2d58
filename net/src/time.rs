//! Time: nanoseconds since any instant that the caller has chosen.

/// A point in time, or a duration, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ns(pub u64);

impl Ns {
    /// The beginning.
    pub const ZERO: Self = Self(0);

    /// A number of seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// A number of milliseconds.
    #[must_use]
    pub const fn from_ms(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_mul(1_000_000))
    }

    /// This time, and then `other`; stops at the largest value.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// How long before this time `earlier` was; zero if it was not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

/// The earlier of two deadlines.
pub(crate) fn earliest(one: Option<Ns>, other: Option<Ns>) -> Option<Ns> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
