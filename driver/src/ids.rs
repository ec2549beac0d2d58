//! Which ids of a kind are taken: one bit each, in memory the device cannot see.
//!
//! Ids are handed out next-fit, starting after the last one given, so that an
//! id that was just freed is the last to be used again: what still points at
//! the old object has the longest time to be noticed.

use core::sync::atomic::{AtomicU64, Ordering};

use e810_hal::{HostBuf, HostMem, NoHostMemory};

use crate::error::Error;

/// A set of ids `0..limit`, the first few reserved.
#[derive(Debug)]
pub(crate) struct Ids<B> {
    bits: B,
    limit: u32,
    next: u32,
    taken: u32,
    /// Of those, ids that stay taken for an object that nobody has.
    lost: u32,
    reserved: u32,
}

impl<P: HostMem> Ids<HostBuf<P>> {
    /// Ids `reserved..limit` are free; those below `reserved` never are.
    pub(crate) fn new(platform: P, limit: u32, reserved: u32) -> Result<Self, NoHostMemory> {
        let bits = HostBuf::new(platform, words_for(limit))?;
        Ok(Self::over(bits, limit, reserved))
    }
}

impl<B: AsRef<[AtomicU64]>> Ids<B> {
    /// The same, on zeroed memory of at least [`words_for`] words.
    fn over(bits: B, limit: u32, reserved: u32) -> Self {
        let this = Self {
            bits,
            limit,
            next: reserved,
            taken: 0,
            lost: 0,
            reserved,
        };
        for id in 0..reserved.min(limit) {
            this.mark(id);
        }
        this
    }

    /// Takes a free id.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let id = self
            .first_free(self.next, self.limit)
            .or_else(|| self.first_free(self.reserved, self.next.min(self.limit)))?;
        self.mark(id);
        self.next = id.wrapping_add(1);
        self.taken = self.taken.saturating_add(1);
        Some(id)
    }

    /// Gives an id back; `false` if it was not taken.
    pub(crate) fn give(&mut self, id: u32) -> bool {
        if id < self.reserved || id >= self.limit || !self.is_taken(id) {
            return false;
        }
        if let Some(word) = self.word(id) {
            word.store(word.load(Ordering::Relaxed) & !bit(id), Ordering::Relaxed);
        }
        self.taken = self.taken.saturating_sub(1);
        true
    }

    /// Gives the id of an object back that could not be made. An id whose
    /// command is still open stays taken: the device may make the object yet.
    pub(crate) fn give_unless_open(&mut self, id: u32, error: &Error) {
        if error.leaves_command_open() {
            self.lost = self.lost.saturating_add(1);
        } else {
            self.give(id);
        }
    }

    /// Whether an id is in use (or reserved).
    pub(crate) fn is_taken(&self, id: u32) -> bool {
        self.word(id)
            .is_some_and(|word| word.load(Ordering::Relaxed) & bit(id) != 0)
    }

    /// Ids of objects that somebody has, reserved ones not counted.
    pub(crate) const fn taken(&self) -> u32 {
        self.taken.saturating_sub(self.lost)
    }

    /// Ids there are besides the reserved ones.
    pub(crate) const fn capacity(&self) -> u32 {
        self.limit.saturating_sub(self.reserved)
    }

    fn word(&self, id: u32) -> Option<&AtomicU64> {
        self.bits.as_ref().get((id / 64) as usize)
    }

    fn mark(&self, id: u32) {
        if let Some(word) = self.word(id) {
            word.store(word.load(Ordering::Relaxed) | bit(id), Ordering::Relaxed);
        }
    }

    /// The lowest free id in `from..to`, a word at a time.
    fn first_free(&self, from: u32, to: u32) -> Option<u32> {
        let mut at = from;
        while at < to {
            let taken = self.word(at)?.load(Ordering::Relaxed);
            let below = bit(at).wrapping_sub(1);
            let free = !(taken | below);
            let start = at & !63;
            if free != 0 {
                let id = start.wrapping_add(free.trailing_zeros());
                return (id < to).then_some(id);
            }
            at = start.checked_add(64)?;
        }
        None
    }
}

/// Words that hold a bit for each id.
const fn words_for(limit: u32) -> usize {
    limit.div_ceil(64) as usize
}

const fn bit(id: u32) -> u64 {
    1u64.wrapping_shl(id & 63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use e810_hal::{Ns, WaitError};
    use std::vec::Vec;

    fn ids(limit: u32, reserved: u32) -> Ids<Vec<AtomicU64>> {
        let bits = (0..words_for(limit)).map(|_| AtomicU64::new(0)).collect();
        Ids::over(bits, limit, reserved)
    }

    #[test]
    fn every_id_once_and_reserved_ones_never() {
        for limit in [4, 63, 64, 65, 130] {
            let mut ids = ids(limit, 3);
            let given: Vec<u32> = core::iter::from_fn(|| ids.take()).collect();
            assert_eq!(given, (3..limit).collect::<Vec<_>>());
            assert_eq!((ids.taken(), ids.capacity()), (limit - 3, limit - 3));
            assert!(!ids.give(0) && !ids.give(limit), "not ours to give");
        }
    }

    #[test]
    fn an_id_that_was_freed_is_the_last_to_come_again() {
        let mut ids = ids(70, 1);
        let first = ids.take().unwrap();
        assert!(ids.give(first));
        assert!(!ids.give(first), "twice");
        let given: Vec<u32> = core::iter::from_fn(|| ids.take()).collect();
        assert_eq!(given.len(), 69);
        assert_eq!(given.last(), Some(&first));
    }

    #[test]
    fn an_id_that_the_device_may_still_use_is_lost() {
        let mut ids = ids(5, 1);
        let open = Error::Wait(WaitError::Timeout {
            label: "CREATE_CQ",
            limit: Ns(1),
        });
        let refused = Error::NoDoorbells { size: 0 };
        let (a, b) = (ids.take().unwrap(), ids.take().unwrap());
        ids.give_unless_open(a, &open);
        ids.give_unless_open(b, &refused);
        assert_eq!(ids.taken(), 0, "nobody has one");
        let given: Vec<u32> = core::iter::from_fn(|| ids.take()).collect();
        assert_eq!(given, [3, 4, b]);
    }

    #[test]
    fn none_at_all() {
        for (limit, reserved) in [(0, 0), (2, 2), (1, 3)] {
            let mut ids = ids(limit, reserved);
            assert_eq!(ids.take(), None);
            assert_eq!(ids.capacity(), 0);
        }
    }
}
