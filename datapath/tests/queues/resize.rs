//! Rings that are replaced while the device writes: no completion is lost, none
//! comes twice, and they come in order.

use e810_datapath::Wc;
use proptest::prelude::*;

use crate::common::{Bench, CqDevice, TestCq, TestQp, words};

#[derive(Clone, Debug)]
enum Step {
    /// The device completes the oldest request.
    Complete,
    /// The driver gives the device a new ring of so many entries.
    Resize(u32),
    /// The device begins the oldest ring that it was given and has not begun.
    Begin,
    Poll(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Complete),
        1 => (2u32..9).prop_map(Step::Resize),
        2 => Just(Step::Begin),
        3 => (0usize..5).prop_map(Step::Poll),
    ];
    prop::collection::vec(step, 1..150)
}

/// A device that gets rings, and goes on to each at its own time.
struct Rig {
    qp: TestQp,
    cq: TestCq,
    /// Rings given and not begun.
    given: Vec<CqDevice>,
    /// Entries in the ring at work that may not be polled yet, at most.
    unpolled: u64,
    posted: u64,
    completed: u64,
    polled: Vec<u64>,
    /// Rings there were, and those given back.
    rings: (usize, usize),
}

impl Rig {
    fn new() -> Self {
        let mut bench = Bench::new();
        let cq = bench.cq(1, 6);
        let other = bench.cq(2, 6);
        let qp = bench.qp(1, cq.key, other.key);
        Self {
            qp,
            cq,
            given: Vec::new(),
            unpolled: 0,
            posted: 0,
            completed: 0,
            polled: Vec::new(),
            rings: (1, 0),
        }
    }

    fn complete(&mut self) {
        let room = (self.cq.device.ring.len() / 4) as u64;
        // A device does not overwrite what was not taken.
        if self.unpolled >= room {
            return;
        }
        if self.posted - self.completed < 2 && self.qp.post(self.posted, 1, true).is_ok() {
            self.posted += 1;
        }
        if self.completed < self.posted {
            self.cq.device.sent(self.qp.key, self.completed % 512);
            self.completed += 1;
            self.unpolled += 1;
        }
    }

    fn resize(&mut self, entries: u32) {
        if !self.cq.cq.can_resize() {
            return;
        }
        let ring = words(entries as usize * 4);
        self.cq.cq.resized(ring, entries).unwrap();
        self.rings.0 += 1;
        self.given.push(CqDevice {
            ring,
            shadow: self.cq.device.shadow,
            written: 0,
        });
    }

    fn begin(&mut self) {
        if !self.given.is_empty() {
            self.cq.device = self.given.remove(0);
            self.unpolled = 0;
        }
    }

    fn poll(&mut self, most: usize) -> usize {
        let mut wcs = vec![Wc::default(); most];
        let got = self.cq.cq.poll(&mut wcs);
        self.polled.extend(wcs[..got].iter().map(|wc| wc.wr_id));
        // As the device reads it: of a ring before the one at work the head says
        // nothing.
        let arm = e810_hal::DmaWord::get(&self.cq.device.shadow[4]) & 0x3FFF;
        let at_work = self.rings.0 - 1 - self.given.len();
        if arm == at_work as u64 {
            let room = (self.cq.device.ring.len() / 4) as u64;
            let head = e810_hal::DmaWord::get(&self.cq.device.shadow[0]);
            let ahead = (self.cq.device.written + room - head) % room;
            // Full and empty look alike; what is polled tells them apart.
            let all = self.completed == self.polled.len() as u64;
            self.unpolled = if ahead == 0 && !all { room } else { ahead };
        }
        while self.cq.cq.take_drained().is_some() {
            self.rings.1 += 1;
        }
        got
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_completion_comes_once_and_in_order(steps in steps()) {
        let mut rig = Rig::new();
        for step in steps {
            match step {
                Step::Complete => rig.complete(),
                Step::Resize(entries) => rig.resize(entries),
                Step::Begin => rig.begin(),
                Step::Poll(most) => { rig.poll(most); }
            }
            let in_order: Vec<u64> = (0..rig.polled.len() as u64).collect();
            prop_assert_eq!(&rig.polled, &in_order);
            let waiting = rig.completed - rig.polled.len() as u64;
            prop_assert_eq!(u64::from(rig.cq.cq.waiting()), waiting);
        }
        // The device comes to its last ring and writes there.
        while !rig.given.is_empty() {
            rig.begin();
        }
        let before = rig.completed;
        rig.complete();
        while rig.poll(3) > 0 {}
        prop_assert_eq!(rig.polled.len() as u64, rig.completed);
        if rig.completed > before && rig.rings.0 > 1 {
            prop_assert_eq!(rig.rings.0 - rig.rings.1, 1, "one ring is left");
        }
        prop_assert!(rig.cq.cq.can_resize());
        prop_assert_eq!(rig.cq.cq.counters(), Default::default());
    }
}

#[test]
fn a_ring_that_is_too_small_and_one_too_many_come_back() {
    let mut rig = Rig::new();
    let (ring, error) = rig.cq.cq.resized(words(4), 2).unwrap_err();
    assert_eq!((ring.len(), error.field), (4, "CQ words"));
    for _ in 0..4 {
        rig.cq.cq.resized(words(16), 4).unwrap();
    }
    assert!(!rig.cq.cq.can_resize() && rig.cq.cq.is_resizing());
    assert!(rig.cq.cq.resized(words(16), 4).is_err());
    let mut rings = 0;
    rig.cq.cq.into_memory(|_| rings += 1);
    assert_eq!(rings, 1 + 4 + 1, "all rings and the shadow area");
}

/// Nothing completes, so no ring is ever begun; the device is given each all the same.
#[test]
fn a_queue_on_which_nothing_completes_is_resized_without_end() {
    let mut rig = Rig::new();
    let mut freed = 0;
    for round in 0..100 {
        let cq = &mut rig.cq.cq;
        cq.pass_over_replaced();
        freed += core::iter::from_fn(|| cq.take_drained()).count();
        assert!(cq.can_resize(), "round {round}");
        rig.resize(4 + round % 4);
    }
    assert!(freed > 90, "{freed}");
    rig.cq.device = rig.given.pop().unwrap();
    rig.unpolled = 0;
    rig.complete();
    assert_eq!(rig.poll(3), 1);
    let arm = e810_hal::DmaWord::get(&rig.cq.device.shadow[4]) & 0x3FFF;
    assert_eq!(arm, 100, "switches");
    // The one at work is left.
    assert_eq!(rig.rings.1 + freed, 100);
}

/// A ring of the middle that has entries stays, also where one after it has none.
#[test]
fn what_was_written_before_a_ring_was_replaced_is_polled() {
    let mut rig = Rig::new();
    for _ in 0..4 {
        rig.complete();
        rig.resize(4);
        rig.begin();
    }
    rig.cq.cq.pass_over_replaced();
    assert!(!rig.cq.cq.can_resize());
    while rig.poll(3) > 0 {}
    assert_eq!(rig.polled.len() as u64, rig.completed);
    rig.complete();
    assert_eq!((rig.poll(3), rig.rings), (1, (5, 4)));
}
