//! Which pages of a pool are taken: a bit each, first fit.

use core::cell::Cell;

/// `WORDS` times 64 pages. Not for several threads, and not for interrupt
/// handlers: the type cannot be shared with either.
#[derive(Debug)]
pub struct PageMap<const WORDS: usize>([Cell<u64>; WORDS]);

impl<const WORDS: usize> PageMap<WORDS> {
    /// Pages there are.
    pub const PAGES: usize = WORDS * 64;

    /// All free.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { Cell::new(0) }; WORDS])
    }

    /// Takes `count` pages in a row, the first at a multiple of `align` (at
    /// least 1): the lowest that are free. `None` when there are none, or
    /// `count` is 0.
    #[must_use]
    pub fn take(&self, count: usize, align: usize) -> Option<usize> {
        let align = align.max(1);
        let mut first = 0;
        while count > 0 && count <= Self::PAGES && first <= Self::PAGES - count {
            match (first..first + count)
                .rev()
                .find(|page| self.is_taken(*page))
            {
                None => {
                    self.set(first, count, true);
                    return Some(first);
                }
                // No run over that page fits.
                Some(taken) => first = (taken + 1).next_multiple_of(align),
            }
        }
        None
    }

    /// Gives back `count` pages from `first` on.
    pub fn give(&self, first: usize, count: usize) {
        self.set(first, count, false);
    }

    /// Pages taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        let ones = self.0.iter().map(|word| word.get().count_ones());
        ones.sum::<u32>() as usize
    }

    fn is_taken(&self, page: usize) -> bool {
        let word = self.0.get(page / 64).map_or(u64::MAX, Cell::get);
        word >> (page % 64) & 1 != 0
    }

    fn set(&self, first: usize, count: usize, taken: bool) {
        for page in first..first + count {
            if let Some(word) = self.0.get(page / 64) {
                let bit = 1 << (page % 64);
                word.set(if taken {
                    word.get() | bit
                } else {
                    word.get() & !bit
                });
            }
        }
    }
}

impl<const WORDS: usize> Default for PageMap<WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_pages_that_fit_are_taken() {
        let map = PageMap::<2>::new();
        assert_eq!(map.take(3, 1), Some(0));
        assert_eq!(map.take(1, 8), Some(8));
        assert_eq!(map.take(5, 1), Some(3), "up to the aligned one");
        assert_eq!(map.take(60, 1), Some(9), "over a word's end");
        assert_eq!(map.take(60, 1), None, "59 are left");
        assert_eq!(map.taken(), 69);
    }

    #[test]
    fn pages_given_back_are_used_again() {
        let map = PageMap::<2>::new();
        let all: Vec<_> = (0..128).map(|_| map.take(1, 1)).collect();
        assert!(all.iter().enumerate().all(|(n, page)| *page == Some(n)));
        assert_eq!(map.take(1, 1), None);
        map.give(62, 4);
        assert_eq!(map.take(2, 64), Some(64));
        assert_eq!(map.take(3, 1), None, "two are left");
        assert_eq!(map.take(2, 2), Some(62));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let map = PageMap::<1>::new();
        assert_eq!(map.take(0, 1), None);
        assert_eq!(map.take(65, 1), None);
        assert_eq!(map.take(usize::MAX, 1), None);
        assert_eq!(map.take(64, usize::MAX / 2 + 1), Some(0));
    }
}
