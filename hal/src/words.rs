//! Words shared with the device: a ring sees [`DmaWord`]s, never references to structures.
//!
//! Ring code is generic over the word. So the same code runs on DMA memory (`AtomicU64`,
//! little-endian), on a recording word with which unit tests check the order of publication, and
//! on a model checker's word.
//!
//! Order of publication: body words with [`DmaWord::set`], then
//! [`Barrier::to_device`](crate::Barrier::to_device), then the word with the
//! valid bit with [`DmaWord::publish`]. A consumer reads the valid word with
//! [`DmaWord::observe`], then
//! [`Barrier::from_device`](crate::Barrier::from_device), then the rest with
//! [`DmaWord::get`].

use core::sync::atomic::{AtomicU64, Ordering};

use crate::le;

/// One 64-bit word that the device and the driver both reach.
pub trait DmaWord {
    /// Reads a word that an observed valid bit has made stable (relaxed).
    fn get(&self) -> u64;
    /// Writes a word that a later [`DmaWord::publish`] makes visible (relaxed).
    fn set(&self, value: u64);
    /// Reads the word that carries a valid bit (acquire).
    fn observe(&self) -> u64;
    /// Writes the word that carries a valid bit (release).
    fn publish(&self, value: u64);
}

impl DmaWord for AtomicU64 {
    #[inline(always)]
    fn get(&self) -> u64 {
        le::load(self, Ordering::Relaxed)
    }
    #[inline(always)]
    fn set(&self, value: u64) {
        le::store(self, value, Ordering::Relaxed);
    }
    #[inline(always)]
    fn observe(&self) -> u64 {
        le::load(self, Ordering::Acquire)
    }
    #[inline(always)]
    fn publish(&self, value: u64) {
        le::store(self, value, Ordering::Release);
    }
}

/// A run of words: a queue, a context, a buffer.
///
/// Indexing is checked once for each entry, not once for each word: take [`DmaWords::block`] and
/// use its constant indexes.
pub trait DmaWords {
    /// The type of a word.
    type Word: DmaWord;

    /// All words, in address order.
    fn words(&self) -> &[Self::Word];

    /// The `N` words from word `index * N` on: entry `index` of a queue whose
    /// entries are `N` words. `None` outside the memory.
    #[inline(always)]
    fn block<const N: usize>(&self, index: usize) -> Option<&[Self::Word; N]> {
        let start = index.checked_mul(N)?;
        self.words().get(start..)?.first_chunk::<N>()
    }

    /// Sets `count` words from `start` on to `value`; words outside the memory
    /// are left alone.
    fn fill(&self, start: usize, count: usize, value: u64) {
        if let Some(rest) = self.words().get(start..) {
            for word in rest.iter().take(count) {
                word.set(value);
            }
        }
    }
}

impl<C: DmaWord> DmaWords for [C] {
    type Word = C;
    #[inline(always)]
    fn words(&self) -> &[C] {
        self
    }
}

impl<W: DmaWords + ?Sized> DmaWords for &W {
    type Word = W::Word;
    #[inline(always)]
    fn words(&self) -> &[W::Word] {
        (**self).words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn words_are_little_endian_in_memory() {
        let word = AtomicU64::new(0);
        word.publish(0x0102_0304_0506_0708);
        assert_eq!(
            word.load(Ordering::Relaxed).to_ne_bytes(),
            [8, 7, 6, 5, 4, 3, 2, 1]
        );
        assert_eq!(word.observe(), 0x0102_0304_0506_0708);
        assert_eq!(word.get(), 0x0102_0304_0506_0708);
    }

    #[test]
    fn a_block_is_an_entry_or_nothing() {
        let memory: Vec<AtomicU64> = (0..10).map(AtomicU64::new).collect();
        let words: &[AtomicU64] = &memory;
        assert_eq!(
            words.block::<4>(1).map(|b| b[0].load(Ordering::Relaxed)),
            Some(4)
        );
        assert!(words.block::<4>(2).is_none(), "half an entry is none");
        assert!(words.block::<4>(usize::MAX).is_none());
    }

    #[test]
    fn fill_stops_at_the_end() {
        let memory: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let words: &[AtomicU64] = &memory;
        words.fill(2, 100, u64::MAX);
        words.fill(100, 1, 7);
        let got: Vec<u64> = memory.iter().map(|w| w.load(Ordering::Relaxed)).collect();
        assert_eq!(got, [0, 0, u64::MAX, u64::MAX]);
    }
}
