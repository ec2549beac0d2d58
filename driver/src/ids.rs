//! Which ids of a kind are taken: one bit each, in memory the device cannot see.
//!
//! Ids are handed out next-fit, starting after the last one given, so that an
//! id that was just freed is the last to be used again: what still points at
//! the old object has the longest time to be noticed.

use core::sync::atomic::{AtomicU64, Ordering};

use e810_hal::{HostBuf, HostMem, NoHostMemory};

/// A set of ids `0..limit`, the first few reserved.
#[derive(Debug)]
pub(crate) struct Ids<P: HostMem> {
    bits: HostBuf<P>,
    limit: u32,
    next: u32,
    taken: u32,
    reserved: u32,
}

impl<P: HostMem> Ids<P> {
    /// Ids `reserved..limit` are free; those below `reserved` never are.
    pub(crate) fn new(platform: P, limit: u32, reserved: u32) -> Result<Self, NoHostMemory> {
        let words = limit.div_ceil(64) as usize;
        let bits = HostBuf::new(platform, words)?;
        let this = Self {
            bits,
            limit,
            next: reserved,
            taken: 0,
            reserved,
        };
        for id in 0..reserved.min(limit) {
            this.mark(id);
        }
        Ok(this)
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

    /// Whether an id is in use (or reserved).
    pub(crate) fn is_taken(&self, id: u32) -> bool {
        self.word(id)
            .is_some_and(|word| word.load(Ordering::Relaxed) & bit(id) != 0)
    }

    /// Ids handed out now, reserved ones not counted.
    pub(crate) const fn taken(&self) -> u32 {
        self.taken
    }

    /// Ids there are besides the reserved ones.
    pub(crate) const fn capacity(&self) -> u32 {
        self.limit.saturating_sub(self.reserved)
    }

    fn word(&self, id: u32) -> Option<&AtomicU64> {
        self.bits.word((id / 64) as usize)
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

const fn bit(id: u32) -> u64 {
    1u64.wrapping_shl(id & 63)
}
