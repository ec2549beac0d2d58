use super::*;
use crate::error::Error;
use core::cell::RefCell;
use core::sync::atomic::{AtomicU64, Ordering};
use e810_hal::RegOffset;
use proptest::prelude::*;
use std::vec::Vec;

const VALID: u64 = 1 << 63;

fn memory(words: &[u64]) -> Vec<AtomicU64> {
    words
        .iter()
        .map(|word| AtomicU64::new(word.to_le()))
        .collect()
}

fn put(memory: &[AtomicU64], at: usize, word: u64) {
    memory[at].store(word.to_le(), Ordering::Relaxed);
}

fn ceq(memory: &[AtomicU64], cqs: u32) -> Ceq<&[AtomicU64]> {
    let entries = u32::try_from(memory.len()).unwrap();
    Ceq::new(memory, CeqEntries::new(entries).unwrap(), cqs).unwrap()
}

#[test]
fn a_fresh_queue_is_empty() {
    let memory = memory(&[0; 4]);
    let mut ceq = ceq(&memory, 8);
    assert_eq!(ceq.poll(), CeqStep::Empty);
    assert_eq!(ceq.drain(9, |_| Delivery::Live), CeqDrain::default());
}

#[test]
fn short_memory_is_refused() {
    let memory = memory(&[0; 3]);
    let got = Ceq::new(&memory[..], CeqEntries::new(4).unwrap(), 8);
    assert!(matches!(got, Err(Error::Memory { bytes: 24, .. })));
}

#[test]
fn the_walk_wraps_and_the_valid_bit_turns() {
    let memory = memory(&[0; 3]);
    let mut ceq = ceq(&memory, 100);
    for n in 0..10u32 {
        let lap_bit = if (n / 3) % 2 == 0 { VALID } else { 0 };
        let cq = CqRef::new(10 + n, n);
        assert_eq!(ceq.poll(), CeqStep::Empty, "before entry {n}");
        put(&memory, (n % 3) as usize, lap_bit | cq.context());
        assert_eq!(ceq.poll(), CeqStep::Event(cq));
    }
    assert_eq!(ceq.counts().events, 10);
}

#[test]
fn entries_that_wait_are_counted() {
    let memory = memory(&[0; 3]);
    let mut ceq = ceq(&memory, 100);
    assert_eq!(ceq.waiting(), 0);
    for n in 0..3 {
        put(&memory, n, VALID | CqRef::new(5, 0).context());
    }
    assert_eq!(ceq.waiting(), 3, "full");
    assert_eq!(ceq.poll(), CeqStep::Event(CqRef::new(5, 0)));
    assert_eq!(ceq.waiting(), 2);
    // The next lap has the other polarity.
    put(&memory, 0, CqRef::new(5, 0).context());
    assert_eq!(ceq.waiting(), 3);
}

/// The valid bit turns with each lap, so no entry has to be cleared.
#[test]
fn taking_entries_writes_nothing() {
    for lap_bit in [VALID, 0] {
        // One that is delivered, one of a destroyed CQ, one of none, one scrubbed.
        let words = [7, 1 << 32 | 2, 99, 0xFFFF_FFFF].map(|word| lap_bit | word);
        let memory = memory(&[VALID; 4]);
        let mut ceq = ceq(&memory, 8);
        if lap_bit == 0 {
            assert_eq!(ceq.drain(4, |_| Delivery::Live).taken, 4);
        }
        for (at, word) in words.iter().enumerate() {
            put(&memory, at, *word);
        }
        let drained = ceq.drain(4, |cq| match cq.generation() {
            0 => Delivery::Live,
            _ => Delivery::Stale,
        });
        assert_eq!((drained.live, drained.stale, drained.skipped), (1, 1, 2));
        let left: Vec<u64> = memory
            .iter()
            .map(|word| u64::from_le(word.load(Ordering::Relaxed)))
            .collect();
        assert_eq!(left, words);
    }
}

#[test]
fn ids_that_no_cq_has_are_counted_and_skipped() {
    let memory = memory(&[
        VALID | 7,
        VALID | 8,
        VALID | 0xFFFF_FFFF,
        VALID | (5 << 32) | 0xFFFF_FFFF,
        VALID,
    ]);
    let mut ceq = ceq(&memory, 8);
    let mut seen = Vec::new();
    let drained = ceq.drain(10, |cq| {
        seen.push(cq.id());
        if cq.is_ccq() {
            Delivery::Stale
        } else {
            Delivery::Live
        }
    });
    assert_eq!(seen, [7, 0]);
    assert_eq!(
        drained,
        CeqDrain {
            taken: 5,
            live: 1,
            stale: 1,
            skipped: 3,
            more: false
        }
    );
    assert_eq!(
        ceq.counts(),
        CeqCounts {
            events: 2,
            scrubbed: 2,
            out_of_range: 1,
            stale: 1
        }
    );
}

#[test]
fn a_budget_ends_a_drain_and_says_whether_more_waits() {
    let memory = memory(&[VALID | 1, VALID | 2, VALID | 3, 0]);
    let mut ceq = ceq(&memory, 8);
    let first = ceq.drain(2, |_| Delivery::Live);
    assert_eq!((first.taken, first.more), (2, true));
    let second = ceq.drain(1, |_| Delivery::Live);
    assert_eq!((second.taken, second.more), (1, false));
    let nothing = ceq.drain(0, |_| Delivery::Live);
    assert_eq!((nothing.taken, nothing.more), (0, false));
}

#[test]
fn scrubbing_takes_a_cq_out_of_what_waits() {
    // Two entries are taken; the device then writes entry 0 of the next lap, so
    // that CQ 5 waits at the end of one lap and the beginning of the next.
    let memory = memory(&[VALID | 1, VALID | 2, VALID | 3, VALID | 5]);
    let mut ceq = ceq(&memory, 8);
    assert_eq!(ceq.drain(2, |_| Delivery::Live).taken, 2);
    put(&memory, 0, 5 | (9 << 32));
    assert_eq!(ceq.scrub(CqRef::new(5, 1)), 0, "another one of that number");
    for generation in [0, 9] {
        assert_eq!(ceq.scrub(CqRef::new(5, generation)), 1);
        assert_eq!(ceq.scrub(CqRef::new(5, generation)), 0, "nothing is left");
    }
    assert_eq!(ceq.scrub(CqRef::new(u32::MAX, 0)), 0);
    assert_eq!(ceq.poll(), CeqStep::Event(CqRef::new(3, 0)));
    assert_eq!(ceq.poll(), CeqStep::Scrubbed);
    assert_eq!(ceq.poll(), CeqStep::Scrubbed);
    assert_eq!(ceq.poll(), CeqStep::Empty);
    let left: Vec<u64> = ceq
        .into_memory()
        .iter()
        .map(|word| u64::from_le(word.load(Ordering::Relaxed)))
        .collect();
    assert_eq!(left[0], 0xFFFF_FFFF, "the valid bit of lap 1 is kept");
    assert_eq!(left[3], VALID | 0xFFFF_FFFF);
}

#[test]
fn acknowledging_writes_the_id() {
    struct Log(RefCell<Vec<(u32, u32)>>);
    impl Bus for Log {
        fn read32(&self, _: RegOffset) -> u32 {
            0
        }
        fn write32(&self, off: RegOffset, value: u32) {
            self.0.borrow_mut().push((off.get(), value));
        }
    }
    let bus = Log(RefCell::default());
    acknowledge(&bus, CqRef::new(0, 77));
    acknowledge(&bus, CqRef::new(0x7_FFFF, 3));
    assert_eq!(bus.0.into_inner(), [(0x50_2C80, 0), (0x50_2C80, 0x7_FFFF)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the device writes, each call is bounded and the counts add up.
    #[test]
    fn any_bytes_are_survived(
        laps in prop::collection::vec(prop::collection::vec(any::<u64>(), 5), 1..4),
        cqs in 0u32..600_000,
        budget in 0u32..20,
        scrub in any::<u64>(),
    ) {
        let memory = memory(&[0; 5]);
        let mut ceq = ceq(&memory, cqs);
        let mut taken = 0u32;
        for lap in &laps {
            for (at, word) in lap.iter().enumerate() {
                put(&memory, at, *word);
            }
            let scrubbed = CqRef::from_context(scrub);
            prop_assert!(ceq.scrub(scrubbed) <= 5);
            let mut delivered = 0;
            let drained = ceq.drain(budget, |cq| {
                delivered += 1;
                assert!(cq.id() < cqs && cq != scrubbed);
                if cq.generation() % 2 == 0 { Delivery::Live } else { Delivery::Stale }
            });
            prop_assert!(drained.taken <= budget);
            prop_assert_eq!(drained.taken, drained.live + drained.stale + drained.skipped);
            prop_assert_eq!(delivered, drained.live + drained.stale);
            prop_assert_eq!(drained.more && drained.taken < budget, false);
            taken += drained.taken;
        }
        let counts = ceq.counts();
        prop_assert_eq!(taken, counts.events + counts.scrubbed + counts.out_of_range);
    }

    /// A queue walked while it is written gives back what was written.
    #[test]
    fn events_come_out_in_order(
        size in 1u32..9,
        contexts in prop::collection::vec((0u32..1000, 0u32..CqRef::GENERATIONS), 0..60),
    ) {
        let memory = memory(&std::vec![0; size as usize]);
        let mut ceq = ceq(&memory, 1000);
        for (n, (id, generation)) in (0u32..).zip(contexts) {
            let cq = CqRef::new(id, generation);
            let valid = if (n / size) % 2 == 0 { VALID } else { 0 };
            put(&memory, (n % size) as usize, valid | cq.context());
            prop_assert_eq!(ceq.poll(), CeqStep::Event(cq));
            prop_assert_eq!(ceq.poll(), CeqStep::Empty);
        }
    }
}
