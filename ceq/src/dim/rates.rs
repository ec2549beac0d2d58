//! Rates of a measurement, and what counts as a difference between two.

use core::num::NonZeroU64;

/// The second of two rates against the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Worse,
    Same,
    Better,
}

impl Verdict {
    /// This one, or what `next` finds where this one sees no difference.
    pub(super) fn or_else(self, next: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Same => next(),
            decided => decided,
        }
    }
}

/// `count` in `us` µs as a rate per millisecond, rounded up.
pub(super) fn per_ms(count: u32, us: NonZeroU64) -> u64 {
    // 32 bits times 1000 always fit.
    u64::from(count).saturating_mul(1_000).div_ceil(us.get())
}

/// `value` in hundredths of `of`, rounded down; 0 if `of` is 0.
pub(super) fn percent(value: u64, of: u64) -> u64 {
    value.saturating_mul(100).checked_div(of).unwrap_or(0)
}

/// Whether `now` differs from `before` by more than 10 %, in whole percent:
/// 10.99 % is no difference. Nothing differs from a rate of 0.
fn differs(now: u64, before: u64) -> bool {
    percent(now.abs_diff(before), before) > 10
}

/// Compares two rates of which the higher is the better.
pub(super) fn more_is_better(now: u64, before: u64) -> Verdict {
    match differs(now, before) {
        false => Verdict::Same,
        true if now > before => Verdict::Better,
        true => Verdict::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Better, Same, Worse};
    use super::*;

    #[test]
    fn rates_are_rounded_up() {
        for (count, us, rate) in [
            (0, 1, 0),
            (1, 1, 1_000),
            (1, 999, 2),
            (1, 1_000, 1),
            (1, 1_001, 1),
            (1, u64::MAX, 1),
            (64, 63_999, 2),
            (64, 64_000, 1),
            (64, 1, 64_000),
            (3, 7, 429),
            (u32::MAX, 1, 4_294_967_295_000),
            (u32::MAX, u64::MAX, 1),
        ] {
            assert_eq!(
                per_ms(count, NonZeroU64::new(us).unwrap()),
                rate,
                "{count} in {us} µs"
            );
        }
    }

    #[test]
    fn hundredths_are_rounded_down() {
        for (value, of, hundredths) in [
            (0, 1, 0),
            (1, 1, 100),
            (1, 3, 33),
            (2, 3, 66),
            (99, 10_000, 0),
            (100, 10_000, 1),
            (5, 0, 0),
            // A rate is never higher than this.
            (4_294_967_295_000, 1, 429_496_729_500_000),
            (u64::MAX, u64::MAX, 1),
            (u64::MAX, 1, u64::MAX),
        ] {
            assert_eq!(percent(value, of), hundredths, "{value} of {of}");
        }
    }

    #[test]
    fn eleven_percent_is_a_difference_and_less_is_none() {
        for (now, before, verdict) in [
            (100, 100, Same),
            (110, 100, Same),
            (111, 100, Better),
            (90, 100, Same),
            (89, 100, Worse),
            // 10.99 % and 11 %.
            (11_099, 10_000, Same),
            (11_100, 10_000, Better),
            (8_901, 10_000, Same),
            (8_900, 10_000, Worse),
            // Small rates: one of nine is 11.1 %, one of ten is 10 %.
            (10, 9, Better),
            (8, 9, Worse),
            (11, 10, Same),
            (9, 10, Same),
            (2, 1, Better),
            (0, 1, Worse),
            (0, 0, Same),
            (1, 0, Same),
            (u64::MAX, 0, Same),
        ] {
            assert_eq!(more_is_better(now, before), verdict, "{now} after {before}");
        }
    }

    #[test]
    fn the_first_difference_decides() {
        assert_eq!(Same.or_else(|| Better), Better);
        assert_eq!(Same.or_else(|| Same), Same);
        assert_eq!(Worse.or_else(|| Better), Worse);
        assert_eq!(Better.or_else(|| Worse), Better);
    }
}
