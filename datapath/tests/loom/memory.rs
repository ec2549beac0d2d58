//! Words that the model checker knows.

use std::ops::Deref;
use std::sync::atomic::Ordering;

use e810_datapath::slot::{Atom, SlotMemory};
use e810_hal::{DmaWord, DmaWords};
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;

pub(crate) struct Word(AtomicU64);

impl Atom for Word {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }
    fn swap(&self, value: u64) -> u64 {
        self.0.swap(value, Ordering::AcqRel)
    }
    fn fetch_add(&self, value: u64) -> u64 {
        self.0.fetch_add(value, Ordering::AcqRel)
    }
    fn fetch_or(&self, bits: u64) -> u64 {
        self.0.fetch_or(bits, Ordering::AcqRel)
    }
    fn fetch_and(&self, bits: u64) -> u64 {
        self.0.fetch_and(bits, Ordering::AcqRel)
    }
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        self.0
            .compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

impl DmaWord for Word {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
    fn observe(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
    fn publish(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }
}

/// Shared words.
#[derive(Clone)]
pub(crate) struct Memory(Arc<Vec<Word>>);

pub(crate) fn memory(words: usize) -> Memory {
    Memory(Arc::new(
        (0..words).map(|_| Word(AtomicU64::new(0))).collect(),
    ))
}

impl SlotMemory for Memory {
    type Atom = Word;
    type Lines<const N: usize, const L: usize> = Lines<N, L>;
    type Groups<const N: usize> = Groups<N>;
    fn atoms(&self) -> &[Word] {
        &self.0
    }
    fn lines<const N: usize, const L: usize>(&self, start: usize) -> Option<Lines<N, L>> {
        (start + N * L <= self.0.len()).then(|| Lines(self.clone(), start))
    }
    fn groups<const N: usize>(&self, start: usize, count: usize) -> Option<Groups<N>> {
        (start + N * count <= self.0.len()).then(|| Groups(self.clone(), start, count))
    }
}

/// Lines of [`Memory`], and the word they start at.
pub(crate) struct Lines<const N: usize, const L: usize>(Memory, usize);

impl<const N: usize, const L: usize> Deref for Lines<N, L> {
    type Target = [[Word; N]; L];
    fn deref(&self) -> &[[Word; N]; L] {
        let Self(memory, start) = self;
        memory.0[*start..].as_chunks().0.first_chunk().unwrap()
    }
}

/// Groups of [`Memory`], the word they start at and how many.
pub(crate) struct Groups<const N: usize>(Memory, usize, usize);

impl<const N: usize> Deref for Groups<N> {
    type Target = [[Word; N]];
    fn deref(&self) -> &[[Word; N]] {
        let Self(memory, start, count) = self;
        &memory.0[*start..].as_chunks().0[..*count]
    }
}

impl DmaWords for Memory {
    type Word = Word;
    fn words(&self) -> &[Word] {
        &self.0
    }
}
