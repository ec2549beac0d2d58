//! Time.

use core::fmt;
use core::ops::{Add, Sub};

/// A time or a duration in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ns(pub u64);

impl Ns {
    /// The beginning, or no time.
    pub const ZERO: Self = Self(0);

    /// `us` microseconds (saturating).
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// `ms` milliseconds (saturating).
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// `seconds` seconds (saturating).
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }
}

/// Stops at the largest value.
impl Add for Ns {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Stops at zero.
impl Sub for Ns {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        if ns >= 1_000_000 && ns.is_multiple_of(1_000_000) {
            write!(f, "{} ms", ns / 1_000_000)
        } else if ns >= 1_000 && ns.is_multiple_of(1_000) {
            write!(f, "{} µs", ns / 1_000)
        } else {
            write!(f, "{ns} ns")
        }
    }
}
