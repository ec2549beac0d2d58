//! The doorbells of a program whose owner simulates the function: a bit for each object, in a file
//! that both have. A program rings by setting a bit, and wakes the owner's thread only if that
//! sleeps. Many rings of one object are one, as on a card, which looks at the ring itself.
//!
//! | word | |
//! |---|---|
//! | 0 | not 0: the owner's thread sleeps, or is about to |
//! | from 8 | bits of queue pairs, then of completion queues, by number |

use std::sync::atomic::{AtomicU64, Ordering};

use e810::ProgramLimits;
use e810_backends::memory::MappedMemory;

use crate::owner::Doorbell;

/// Where the bits begin: in another cache line.
const BITS: usize = 8;

#[derive(Debug)]
pub(crate) struct Doorbells {
    memory: MappedMemory,
    /// Words of queue pairs.
    qps: usize,
    /// Words of completion queues.
    cqs: usize,
}

const fn words(objects: u32) -> usize {
    objects.div_ceil(u64::BITS) as usize
}

impl Doorbells {
    /// Bytes of memory that they need.
    pub(crate) const fn bytes(limits: &ProgramLimits) -> usize {
        (BITS + words(limits.qps) + words(limits.cqs)) * 8
    }

    /// In `memory`; `None` if that is too small.
    pub(crate) fn new(memory: MappedMemory, limits: &ProgramLimits) -> Option<Self> {
        let fits = memory.len() >= Self::bytes(limits);
        fits.then_some(Self {
            memory,
            qps: words(limits.qps),
            cqs: words(limits.cqs),
        })
    }

    fn sleeps(&self) -> Option<&AtomicU64> {
        self.memory.words().first()
    }

    fn bits(&self) -> &[AtomicU64] {
        let all = self.memory.words().get(BITS..).unwrap_or_default();
        all.get(..self.qps + self.cqs).unwrap_or_default()
    }

    /// The program rings; returns whether the owner has to be woken.
    ///
    /// The bit is set before the flag is read, and the owner sets the flag before it looks at the
    /// bits for the last time, all in one order: one of the two sees what the other has done.
    pub(crate) fn ring(&self, doorbell: Doorbell) -> bool {
        let (first, number) = match doorbell {
            Doorbell::Qp(number) => (0, number),
            Doorbell::Cq(number) => (self.qps, number),
        };
        let at = first + (number / u64::BITS) as usize;
        let (Some(word), Some(sleeps)) = (self.bits().get(at), self.sleeps()) else {
            return false;
        };
        word.fetch_or(1 << (number % u64::BITS), Ordering::SeqCst);
        sleeps.load(Ordering::SeqCst) != 0 && sleeps.swap(0, Ordering::SeqCst) != 0
    }

    /// The owner takes what was rung; returns whether something was.
    ///
    /// A program that asks for an event and then posts gets the event, because a card takes doorbells
    /// in their order. So completion queues come first: of those that were rung before a queue pair,
    /// each is seen by who has seen the queue pair's bit.
    pub(crate) fn take(&self, mut rung: impl FnMut(Doorbell)) -> bool {
        let (qps, cqs) = self.bits().split_at(self.qps.min(self.bits().len()));
        let mut any = false;
        for (at, word) in qps.iter().enumerate() {
            let bits = taken(word);
            if bits != 0 {
                take_all(cqs, |number| rung(Doorbell::Cq(number)));
                each(at, bits, |number| rung(Doorbell::Qp(number)));
                any = true;
            }
        }
        any | take_all(cqs, |number| rung(Doorbell::Cq(number)))
    }

    /// The owner is about to sleep: from now on it is woken. It looks once more before it does.
    pub(crate) fn begin_sleep(&self) {
        if let Some(sleeps) = self.sleeps() {
            sleeps.store(1, Ordering::SeqCst);
        }
    }

    /// The owner does not sleep.
    pub(crate) fn end_sleep(&self) {
        if let Some(sleeps) = self.sleeps() {
            sleeps.store(0, Ordering::SeqCst);
        }
    }
}

/// The bits of a word, which are 0 then.
fn taken(word: &AtomicU64) -> u64 {
    match word.load(Ordering::SeqCst) {
        0 => 0,
        _ => word.swap(0, Ordering::SeqCst),
    }
}

/// Takes the bits of all words; returns whether there were any.
fn take_all(words: &[AtomicU64], mut one: impl FnMut(u32)) -> bool {
    let mut any = false;
    for (at, word) in words.iter().enumerate() {
        let bits = taken(word);
        any |= bits != 0;
        each(at, bits, &mut one);
    }
    any
}

/// The numbers of the bits of word `at`.
fn each(at: usize, mut bits: u64, mut one: impl FnMut(u32)) {
    while bits != 0 {
        one(at as u32 * u64::BITS + bits.trailing_zeros());
        bits &= bits - 1;
    }
}

#[cfg(test)]
mod tests {
    use e810_backends::memory::SharedMemory;

    use super::*;

    #[test]
    fn what_is_rung_is_taken_once_and_wakes_who_sleeps() {
        let limits = ProgramLimits {
            cqs: 100,
            qps: 65,
            tracker_words: 0,
        };
        let memory = || SharedMemory::new(Doorbells::bytes(&limits), false).unwrap();
        let doorbells = Doorbells::new(memory().without_file(), &limits).unwrap();
        let taken = || {
            let mut all = Vec::new();
            let any = doorbells.take(|one| all.push(one));
            assert_eq!(any, !all.is_empty());
            all
        };
        assert!(taken().is_empty());
        // Completion queues before queue pairs.
        let all = [
            Doorbell::Cq(0),
            Doorbell::Cq(99),
            Doorbell::Qp(0),
            Doorbell::Qp(63),
            Doorbell::Qp(64),
        ];
        for one in all.iter().chain(&all) {
            assert!(!doorbells.ring(*one), "nobody sleeps");
        }
        assert_eq!(taken(), all);
        doorbells.begin_sleep();
        assert!(doorbells.ring(all[0]));
        assert!(!doorbells.ring(all[1]), "it is woken already");
        doorbells.begin_sleep();
        doorbells.end_sleep();
        assert!(!doorbells.ring(all[1]));
        assert_eq!(taken(), all[..2]);
        // Also those that are rung while a word of queue pairs is taken.
        doorbells.ring(Doorbell::Qp(0));
        doorbells.ring(Doorbell::Qp(64));
        let mut order = Vec::new();
        doorbells.take(|one| {
            if one == Doorbell::Qp(0) {
                doorbells.ring(Doorbell::Cq(7));
            }
            order.push(one);
        });
        assert_eq!(order, [Doorbell::Qp(0), Doorbell::Cq(7), Doorbell::Qp(64)]);
        // Numbers that no object has.
        for one in [Doorbell::Qp(1 << 20), Doorbell::Cq(u32::MAX)] {
            doorbells.ring(one);
        }
        assert!(taken().is_empty());
        let large = ProgramLimits {
            qps: 1 << 18,
            ..limits
        };
        assert!(Doorbells::new(memory().without_file(), &large).is_none());
    }
}
