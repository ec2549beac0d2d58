//! Tracks which ids of a kind are taken, with a list of the free ones, in memory that the device
//! cannot see.
//!
//! Ids are handed out oldest first: first ids that were never used, then ids that were given
//! back, in that order. So a stale reference to a destroyed object has the longest time to be
//! noticed.

use core::sync::atomic::{AtomicU64, Ordering};

use e810_hal::{HostBuf, HostMem, NoHostMemory};

use crate::error::Error;

/// A set of ids `0..limit`, the first few reserved.
#[derive(Debug)]
pub(crate) struct Ids<B> {
    /// A link each: [`TAKEN`], or the id that was given back next.
    links: B,
    limit: u32,
    /// Ids from here on were never taken.
    fresh: u32,
    /// The id given back longest ago, and the one given back last.
    free: Option<(u32, u32)>,
    taken: u32,
    /// Taken ids whose object nobody has.
    lost: u32,
    reserved: u32,
}

/// In the link of an id: it is in use, or was never used.
const TAKEN: u32 = 0;
/// It is the last one that was given back.
const LAST: u32 = u32::MAX;

impl<P: HostMem> Ids<HostBuf<P>> {
    /// Ids `reserved..limit` are free; those below `reserved` never are.
    pub(crate) fn new(platform: P, limit: u32, reserved: u32) -> Result<Self, NoHostMemory> {
        let links = HostBuf::new(platform, words_for(limit))?;
        Ok(Self::over(links, limit, reserved))
    }
}

impl<B: AsRef<[AtomicU64]>> Ids<B> {
    /// The same, on zeroed memory of at least [`words_for`] words.
    const fn over(links: B, limit: u32, reserved: u32) -> Self {
        Self {
            links,
            limit,
            fresh: reserved,
            free: None,
            taken: 0,
            lost: 0,
            reserved,
        }
    }

    /// Takes a free id.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let id = if self.fresh < self.limit {
            let id = self.fresh;
            self.fresh = self.fresh.wrapping_add(1);
            id
        } else {
            let (first, last) = self.free?;
            // A link is the id one up, because 0 means that there is none.
            let next = self.link(first).wrapping_sub(1);
            self.free = (first != last).then_some((next, last));
            self.set_link(first, TAKEN);
            first
        };
        self.taken = self.taken.saturating_add(1);
        Some(id)
    }

    /// Gives an id back; `false` if it was not taken.
    pub(crate) fn give(&mut self, id: u32) -> bool {
        if !self.is_taken(id) {
            return false;
        }
        self.set_link(id, LAST);
        self.free = Some(match self.free {
            Some((first, last)) => {
                self.set_link(last, id.wrapping_add(1));
                (first, id)
            }
            None => (id, id),
        });
        self.taken = self.taken.saturating_sub(1);
        true
    }

    /// Gives back the id of an object that could not be made. If the command is still open, the
    /// id stays taken: the device may yet make the object.
    pub(crate) fn give_unless_open(&mut self, id: u32, error: &Error) {
        if error.leaves_command_open() {
            self.lost = self.lost.saturating_add(1);
        } else {
            self.give(id);
        }
    }

    /// Whether an id is in use; reserved ones do not count.
    fn is_taken(&self, id: u32) -> bool {
        (self.reserved..self.fresh).contains(&id) && self.link(id) == TAKEN
    }

    /// Ids in use, reserved ones not counted.
    pub(crate) const fn taken(&self) -> u32 {
        self.taken.saturating_sub(self.lost)
    }

    /// Number of ids, without the reserved ones.
    pub(crate) const fn capacity(&self) -> u32 {
        self.limit.saturating_sub(self.reserved)
    }

    /// Two links a word.
    fn link(&self, id: u32) -> u32 {
        let word = self.links.as_ref().get((id / 2) as usize);
        word.map_or(TAKEN, |word| {
            word.load(Ordering::Relaxed).wrapping_shr(shift(id)) as u32
        })
    }

    fn set_link(&self, id: u32, link: u32) {
        if let Some(word) = self.links.as_ref().get((id / 2) as usize) {
            let others =
                word.load(Ordering::Relaxed) & !u64::from(u32::MAX).wrapping_shl(shift(id));
            let link = u64::from(link).wrapping_shl(shift(id));
            word.store(others | link, Ordering::Relaxed);
        }
    }
}

/// Words that hold a link for each id.
pub(crate) const fn words_for(limit: u32) -> usize {
    limit.div_ceil(2) as usize
}

const fn shift(id: u32) -> u32 {
    (id & 1) * 32
}

/// A number that no other bring-up or pool of this program gets. 0 belongs to nobody.
pub(crate) fn next_tag() -> u64 {
    // At a million a second they last for half a million years.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
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
    fn ids_come_again_in_the_order_they_were_given_back() {
        let mut ids = ids(9, 2);
        let all: Vec<u32> = core::iter::from_fn(|| ids.take()).collect();
        let order = [5, 2, 8, 3];
        assert!(order.into_iter().all(|id| ids.give(id)));
        assert_eq!([ids.take(), ids.take()], [Some(5), Some(2)]);
        assert!(ids.give(4) && ids.give(5));
        let given: Vec<u32> = core::iter::from_fn(|| ids.take()).collect();
        assert_eq!(given, [8, 3, 4, 5]);
        assert_eq!(ids.taken() as usize, all.len());
        assert!(all.into_iter().all(|id| ids.give(id)));
        assert_eq!(ids.taken(), 0);
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
