//! Where the addresses of a segment are: learned from what its ends send.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use e810_sim::link::Mac;

/// How long an address is known after its end was last heard of. An end that ended is usually
/// forgotten at once, because the kernel refuses what is sent there; this is for one whose port
/// another program has now. What is not known goes to all ends, which is right, and slower.
const MAX_AGE: Duration = Duration::from_secs(1);
/// Addresses known at most: a flood of invented ones takes no more memory.
const MAX_KNOWN: usize = 1024;

/// Ethernet addresses and the ends that have them.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    known: Mutex<Known>,
    generation: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    ends: HashMap<Mac, End>,
    /// Ends to which there is a ring, with the addresses of their functions. These are known until
    /// another end has them, or this one is gone.
    linked: HashMap<SocketAddr, Vec<Mac>>,
}

impl Known {
    fn is_linked(&self, mac: &Mac, at: SocketAddr) -> bool {
        let macs = self.linked.get(&at);
        macs.is_some_and(|macs| macs.contains(mac))
    }
}

#[derive(Clone, Copy, Debug)]
struct End {
    at: SocketAddr,
    heard: Instant,
    is_linked: bool,
}

impl End {
    fn is_fresh(&self, now: Instant) -> bool {
        self.is_linked || now.saturating_duration_since(self.heard) < MAX_AGE
    }
}

impl Ends {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing in here panics half-way.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another number after each change of where a linked address is, or whether one is.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn change(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The end to which a frame goes; `None`: to all.
    pub(crate) fn of(&self, frame: &[u8], now: Instant) -> Option<SocketAddr> {
        let to = frame.first_chunk::<6>()?;
        if to[0] & 1 != 0 {
            return None;
        }
        let end = self.known().ends.get(to).copied();
        end.filter(|end| end.is_fresh(now)).map(|end| end.at)
    }

    /// The end that has an address, if there is a ring to it.
    pub(crate) fn linked(&self, mac: &Mac) -> Option<SocketAddr> {
        let end = self.known().ends.get(mac).copied();
        end.filter(|end| end.is_linked).map(|end| end.at)
    }

    /// `mac` has sent a frame from the end at `at`.
    pub(crate) fn learn(&self, mac: Mac, at: SocketAddr, now: Instant) {
        let mut known = self.known();
        if known.ends.len() >= MAX_KNOWN && !known.ends.contains_key(&mac) {
            known.ends.retain(|_, end| end.is_fresh(now));
            if known.ends.len() >= MAX_KNOWN {
                return;
            }
        }
        let end = End {
            at,
            heard: now,
            is_linked: known.is_linked(&mac, at),
        };
        let before = known.ends.insert(mac, end);
        if before.is_none_or(|before| (before.at, before.is_linked) != (at, end.is_linked)) {
            self.change();
        }
    }

    /// There is a ring to the end at `at`, whose functions have these addresses.
    pub(crate) fn link(&self, at: SocketAddr, macs: Vec<Mac>, now: Instant) {
        self.known().linked.insert(at, macs.clone());
        for mac in macs.into_iter().filter(|mac| mac[0] & 1 == 0) {
            self.learn(mac, at, now);
        }
    }

    /// There is no end at `at` any more.
    pub(crate) fn forget(&self, at: SocketAddr) {
        let mut known = self.known();
        known.linked.remove(&at);
        known.ends.retain(|_, end| end.at != at);
        self.change();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Mac = [2, 0, 0, 0, 0, 1];
    const B: Mac = [2, 0, 0, 0, 0, 2];

    fn at(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn an_address_is_where_it_was_last_heard_of() {
        let (ends, now) = (Ends::default(), Instant::now());
        assert_eq!(ends.of(&A, now), None);
        ends.learn(A, at(1), now);
        ends.learn(B, at(1), now);
        assert_eq!(ends.of(&A, now), Some(at(1)));
        assert_eq!(ends.of(&B, now), Some(at(1)));
        // A successor with the same address.
        ends.learn(A, at(2), now);
        assert_eq!(ends.of(&A, now), Some(at(2)));
        ends.forget(at(1));
        assert_eq!((ends.of(&A, now), ends.of(&B, now)), (Some(at(2)), None));
    }

    #[test]
    fn an_address_that_is_not_heard_of_is_not_known_for_long() {
        let (ends, start) = (Ends::default(), Instant::now());
        ends.learn(A, at(1), start);
        let almost = start + MAX_AGE - Duration::from_nanos(1);
        assert_eq!(ends.of(&A, almost), Some(at(1)));
        assert_eq!(ends.of(&A, start + MAX_AGE), None);
        ends.learn(A, at(1), almost);
        assert_eq!(ends.of(&A, start + MAX_AGE), Some(at(1)));
    }

    #[test]
    fn the_addresses_of_an_end_with_a_ring_are_known_until_another_has_them() {
        let (ends, start) = (Ends::default(), Instant::now());
        let late = start + 2 * MAX_AGE;
        ends.link(at(1), vec![A], start);
        ends.learn(B, at(1), start);
        assert_eq!((ends.of(&A, late), ends.of(&B, late)), (Some(at(1)), None));
        assert_eq!((ends.linked(&A), ends.linked(&B)), (Some(at(1)), None));
        let mut generation = ends.generation();
        let mut is_changed = || std::mem::replace(&mut generation, ends.generation()) != generation;
        ends.learn(A, at(1), late);
        assert!(!is_changed());
        ends.learn(A, at(2), late);
        assert!(is_changed() && ends.linked(&A).is_none());
        assert_eq!(ends.of(&A, late), Some(at(2)));
        ends.learn(A, at(1), late);
        assert!(is_changed() && ends.linked(&A) == Some(at(1)));
        ends.forget(at(1));
        assert!(is_changed() && ends.linked(&A).is_none());
        ends.learn(A, at(1), late);
        assert_eq!(ends.of(&A, late + MAX_AGE), None);
    }

    #[test]
    fn groups_and_what_is_no_frame_go_to_all() {
        let (ends, now) = (Ends::default(), Instant::now());
        let group = [0x33, 0x33, 0, 0, 0, 1];
        ends.learn(group, at(1), now);
        assert_eq!(ends.of(&group, now), None);
        assert_eq!(ends.of(&A[..5], now), None);
    }

    #[test]
    fn invented_addresses_do_not_push_out_those_that_are_used() {
        let (ends, start) = (Ends::default(), Instant::now());
        let invented = |number: u32| {
            let [a, b, c, d] = number.to_be_bytes();
            [4, 0, a, b, c, d]
        };
        ends.learn(A, at(1), start);
        for number in 0..5000 {
            ends.learn(invented(number), at(9), start);
        }
        assert_eq!(ends.known().ends.len(), MAX_KNOWN);
        assert_eq!(ends.of(&A, start), Some(at(1)));
        ends.learn(B, at(2), start);
        assert_eq!(ends.of(&B, start), None, "no room");
        // There is when they have aged, and A was heard of meanwhile.
        ends.learn(A, at(1), start + MAX_AGE / 2);
        ends.learn(B, at(2), start + MAX_AGE);
        assert_eq!(ends.known().ends.len(), 2);
        assert_eq!(ends.of(&A, start + MAX_AGE), Some(at(1)));
    }
}
