//! First fit in a bitmap: which units of the PBLE area are taken.
//!
//! These are plain functions on words, so one copy serves all platforms. A set bit is a taken
//! unit; bits past the end are always set.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

/// A view of the bitmap.
#[derive(Clone, Copy)]
pub(super) struct Bitmap<'a>(pub(super) &'a [AtomicU64]);

impl Bitmap<'_> {
    /// Words for `units`.
    pub(super) const fn words_for(units: u32) -> usize {
        units.div_ceil(64) as usize
    }

    /// Marks the bits past the last unit as taken for good.
    pub(super) fn close(&self, units: u32) {
        let end = (self.0.len() as u32).saturating_mul(64);
        self.change(units..end, true);
    }

    fn word(&self, index: u32) -> u64 {
        let word = self.0.get(index as usize);
        // Only touched through `&mut Hmc`: relaxed is enough.
        word.map_or(u64::MAX, |word| word.load(Ordering::Relaxed))
    }

    /// Takes the first run of `want` free units.
    pub(super) fn take(&self, want: u32) -> Option<u32> {
        let start = self.first_fit(want)?;
        self.change(start..start.saturating_add(want), true);
        Some(start)
    }

    fn first_fit(&self, want: u32) -> Option<u32> {
        let units = (self.0.len() as u32).saturating_mul(64);
        let (mut start, mut at) = (0u32, 0u32);
        while at < units {
            let bits = self.word(at / 64) >> (at % 64);
            // Bits shifted in at the top are not units of this word.
            let in_word = 64u32.saturating_sub(at % 64);
            if bits & 1 != 0 {
                at = at.saturating_add(bits.trailing_ones());
                start = at;
            } else {
                at = at.saturating_add(bits.trailing_zeros().min(in_word));
                if at.saturating_sub(start) >= want {
                    return Some(start);
                }
            }
        }
        None
    }

    /// Frees a run that was taken.
    pub(super) fn free(&self, run: Range<u32>) {
        self.change(run, false);
    }

    fn change(&self, run: Range<u32>, taken: bool) {
        let mut at = run.start;
        while at < run.end {
            let in_word = 64u32.saturating_sub(at % 64);
            let count = run.end.saturating_sub(at).min(in_word);
            let ones = u64::MAX >> 64u32.saturating_sub(count);
            let mask = ones << (at % 64);
            if let Some(word) = self.0.get((at / 64) as usize) {
                let old = word.load(Ordering::Relaxed);
                let new = if taken { old | mask } else { old & !mask };
                word.store(new, Ordering::Relaxed);
            }
            at = at.saturating_add(count);
        }
    }

    /// Free units.
    #[cfg(test)]
    pub(super) fn count_free(&self) -> u32 {
        let zeros = |word: &AtomicU64| word.load(Ordering::Relaxed).count_zeros();
        self.0.iter().map(zeros).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn bitmap(units: u32) -> Vec<AtomicU64> {
        let words: Vec<AtomicU64> = (0..Bitmap::words_for(units))
            .map(|_| AtomicU64::new(0))
            .collect();
        Bitmap(&words).close(units);
        words
    }

    #[test]
    fn the_end_is_not_given_out() {
        let words = bitmap(70);
        let map = Bitmap(&words);
        assert_eq!(map.count_free(), 70);
        assert_eq!(map.take(71), None);
        assert_eq!(map.take(70), Some(0));
        assert_eq!(map.take(1), None);
        map.free(3..70);
        assert_eq!(map.take(67), Some(3));
        let none = bitmap(0);
        assert_eq!(Bitmap(&none).take(1), None);
        let whole = bitmap(128);
        assert_eq!(Bitmap(&whole).take(128), Some(0));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// Against a vector of flags searched one by one.
        #[test]
        fn first_fit_is_the_first_that_fits(
            units in 1u32..300,
            steps in prop::collection::vec((any::<bool>(), 1u32..90), 0..60),
        ) {
            let words = bitmap(units);
            let map = Bitmap(&words);
            let mut flags = std::vec![false; units as usize];
            let mut runs: Vec<Range<u32>> = Vec::new();
            for (take, size) in steps {
                if take {
                    let expected = (0..units)
                        .find(|s| s + size <= units && flags[*s as usize..(s + size) as usize].iter().all(|f| !f));
                    prop_assert_eq!(map.take(size), expected);
                    if let Some(start) = expected {
                        flags[start as usize..(start + size) as usize].fill(true);
                        runs.push(start..start + size);
                    }
                } else if !runs.is_empty() {
                    let run = runs.swap_remove(size as usize % runs.len());
                    flags[run.start as usize..run.end as usize].fill(false);
                    map.free(run);
                }
                let free = flags.iter().filter(|f| !**f).count();
                prop_assert_eq!(map.count_free() as usize, free);
            }
        }
    }
}
