//! Where the machine ends up under a lasting load, in virtual time.

use e810_hal::Ns;
use std::vec::Vec;

use super::*;

const HIGH: u64 = 100;
const LOW: u64 = 100_000;

/// A queue with one completion every few ns. An event comes when the profile's time has passed
/// since the first waiting completion, or when the profile's count is waiting.
#[derive(Default)]
struct Queue {
    now: u64,
    /// When the last completion came.
    last: u64,
    events: u32,
    completions: u32,
}

impl Queue {
    fn event(&mut self, profile: Profile, period: u64) {
        let by_time = self.last + period + u64::from(profile.us) * 1_000;
        let by_count = self.last + period * u64::from(profile.count);
        self.now = by_time.min(by_count).max(self.now);
        let came = (self.now - self.last) / period;
        self.last += came * period;
        self.completions += u32::try_from(came).unwrap();
        self.events += 1;
    }
}

/// `events` events of a load; returns the indices asked for on the way, and completions per event
/// over the last 64 events.
fn rdma(dim: &mut RdmaDim<'_>, queue: &mut Queue, period: u64, events: u32) -> (Vec<usize>, u32) {
    let (mut asked, mut at_last) = (Vec::new(), 0);
    for left in (0..events).rev() {
        queue.event(dim.profile(), period);
        if left == 64 {
            at_last = queue.completions;
        }
        let sample = RdmaSample {
            time: Ns(queue.now),
            events: queue.events,
            completions: queue.completions,
        };
        if let Some(index) = dim.sample(sample) {
            asked.push(index);
            dim.applied();
        }
    }
    (asked, (queue.completions - at_last) / 64)
}

#[test]
fn a_low_rate_is_not_moderated() {
    for profiles in [&RDMA[..], &CARD] {
        let mut dim = RdmaDim::new(profiles).unwrap();
        let ran = rdma(&mut dim, &mut Queue::default(), LOW, 64 * 50);
        assert_eq!((ran, dim.index()), ((Vec::new(), 1), 0));
    }
}

#[test]
fn a_high_rate_is_until_it_falls() {
    for (profiles, up, an_event, down) in [
        // Up, the count of the third profile is what ends its waits. Down, two
        // measurements are worse, the one that the fall is in and the next: a
        // step there and back. Then the rate is the same.
        (&RDMA[..], &[1, 2][..], 4, &[1, 2, 0][..]),
        // Up, 50 µs after the first one that waits, at one each 100 ns. Down,
        // both only turn at the edge.
        (&CARD, &[1, 2, 3, 4, 5, 6], 501, &[0]),
    ] {
        let (mut queue, mut dim) = (Queue::default(), RdmaDim::new(profiles).unwrap());
        rdma(&mut dim, &mut queue, LOW, 64 * 3);
        let ran = rdma(&mut dim, &mut queue, HIGH, 64 * 50);
        assert_eq!(ran, (up.to_vec(), an_event));
        let ran = rdma(&mut dim, &mut queue, LOW, 64 * 50);
        assert_eq!((ran, dim.index()), ((down.to_vec(), 1), 0));
    }
}

/// Nothing ever differs, so nothing is tried: what Linux' rules say.
#[test]
fn a_high_rate_without_a_beginning_is_not_moderated() {
    for profiles in [&RDMA[..], &CARD] {
        let mut dim = RdmaDim::new(profiles).unwrap();
        let ran = rdma(&mut dim, &mut Queue::default(), HIGH, 64 * 50);
        assert_eq!((ran, dim.index()), ((Vec::new(), 1), 0));
    }
}
