//! Entries in the queues that no working device writes, in virtual time.
//!
//! A test fills a whole queue with them, twice, so that driver and device agree
//! again on the place and the valid bit of the next entry. Flush entries with
//! the context of a living queue pair are left out: they are what a device
//! writes to fail it.

#![expect(
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like the tests"
)]

use e810::{Data, Notify, Op, QpState, SendFlags, SendWr, Sge, WcStatus};
use e810_ceq::event::Kind as EventKind;
use e810_hal::{Clock, Ns};
use e810_sim::{Sim, SimPlatform};
use e810_tests::traffic::{Block, End, Kind, Pair, Setup, Transfer, Watched, pattern};
use proptest::prelude::*;

const A: End = End { side: 0, qp: 0 };
const B: End = End { side: 1, qp: 0 };
const VALID: u64 = 1 << 63;

type Simulated = Pair<Watched<SimPlatform>>;

fn start(seed: u64) -> (Sim, Simulated) {
    let sim = Sim::builder().functions(2).seed(seed).build();
    let mut pair = Pair::simulated(&sim, Setup::default());
    pair.transfer(A, &Transfer::new(Kind::Send, 100));
    pair.transfer(B, &Transfer::new(Kind::Send, 100));
    (sim, pair)
}

/// Everything still works; what the device saw of the rubbish are findings of
/// these kinds alone.
fn end(sim: &Sim, mut pair: Simulated, may_find: &[&str]) {
    for side in &mut pair.sides {
        assert_eq!(side.qps[0].state(), QpState::Rts);
        assert_eq!(side.take(), []);
    }
    for kind in [Kind::Send, Kind::Write, Kind::Read] {
        pair.transfer(A, &Transfer::new(kind, 3000));
        pair.transfer(B, &Transfer::new(kind, 3000));
    }
    for finding in sim.take_findings() {
        assert!(may_find.contains(&finding.kind), "{finding}");
    }
    pair.finish(sim);
}

/// Random words.
fn words(seed: u64, count: usize) -> Vec<u64> {
    pattern(seed, count * 8)
        .as_chunks::<8>()
        .0
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .collect()
}

/// Ring and shadow area of the only CQ of side 0.
fn completion_queue(pair: &Simulated) -> (Block, Block) {
    let blocks = pair.sides[0].platform.blocks();
    let shadow = blocks
        .iter()
        .rposition(|block| (block.bytes, block.align) == (64, 64))
        .expect("a shadow area");
    (blocks[shadow - 1].clone(), blocks[shadow].clone())
}

/// Fills a ring of entries of `size` words, valid from `head` on for one lap;
/// `entry` makes one, the valid bit apart, which is in its last word.
fn fill(ring: &Block, size: usize, head: usize, mut entry: impl FnMut(&mut [u64])) {
    let count = ring.words() / size;
    let last = |at: usize| (at + 1) * size - 1;
    let mut polarity = !ring.get(last(head)) & VALID;
    for n in 0..count {
        let at = (head + n) % count;
        if at == 0 && n > 0 {
            polarity ^= VALID;
        }
        let mut words = vec![0; size];
        entry(&mut words);
        for (index, word) in words.iter().enumerate().take(size - 1) {
            ring.set(at * size + index, *word);
        }
        ring.set(last(at), words[size - 1] & !VALID | polarity);
    }
}

/// Two laps of entries that take `slots` places each.
fn laps(pair: &mut Simulated, slots: u64, mut entry: impl FnMut(&mut [u64])) {
    let (ring, shadow) = completion_queue(pair);
    let entries = (ring.words() / 4) as u64;
    let side = &mut pair.sides[0];
    let before = side.cqs[0].counters();
    let head = shadow.get(0);
    for _ in 0..2 {
        fill(&ring, 4, head as usize, &mut entry);
        for _ in 0..4 {
            side.poll_cqs();
        }
        assert_eq!(side.done, []);
        assert_eq!(shadow.get(0), head, "a whole lap was consumed");
    }
    let after = side.cqs[0].counters();
    let counted = after.stale + after.malformed + after.late_flushes
        - before.stale
        - before.malformed
        - before.late_flushes;
    assert_eq!(counted, 2 * entries / slots, "{after:?}");
}

/// A CQE that the device wrote: its context and QP.
fn real_entry(pair: &Simulated) -> [u64; 4] {
    let (ring, shadow) = completion_queue(pair);
    let last = shadow.get(0) as usize - 1;
    [0, 1, 2, 3].map(|word| ring.get(last * 4 + word))
}

/// The blocks of queues of side 0 that change while the device works alone, and
/// which words.
fn changed(pair: &mut Simulated, work: impl FnOnce(&mut Simulated)) -> Vec<(Block, Vec<usize>)> {
    let queues: Vec<Block> = pair.sides[0]
        .platform
        .blocks()
        .into_iter()
        .filter(|block| block.align == 256)
        .collect();
    let contents =
        |block: &Block| -> Vec<u64> { (0..block.words()).map(|word| block.get(word)).collect() };
    let before: Vec<Vec<u64>> = queues.iter().map(contents).collect();
    work(pair);
    queues
        .into_iter()
        .zip(before)
        .map(|(block, before)| {
            let after = contents(&block);
            let differ = (0..after.len()).filter(|word| after[*word] != before[*word]);
            (block, differ.collect::<Vec<_>>())
        })
        .filter(|(_, words)| !words.is_empty())
        .collect()
}

fn work_alone(pair: &mut Simulated) {
    let platform = pair.sides[0].platform.clone();
    let start = platform.now();
    while platform.now() - start < Ns::from_ms(1) {
        platform.relax();
    }
}

/// The CEQ of the CQ of side 0, and the place of its next entry.
fn event_queue(pair: &mut Simulated) -> (Block, usize) {
    let side = &mut pair.sides[0];
    side.progress();
    assert!(!side.cqs[0].arm(Notify::Any));
    let sge = side.sge(0, 8);
    let remote = pair.remote(A, 0);
    let found = changed(pair, |pair| {
        let request = SendWr {
            wr_id: 1,
            op: Op::Write {
                data: Data::Sges(&[sge]),
                remote,
                imm: None,
            },
            flags: SendFlags::SIGNALED,
        };
        pair.sides[0].post_send(0, &[request]).unwrap();
        work_alone(pair);
    });
    // The only queue that got one word alone.
    let mut single = found.iter().filter(|(_, words)| words.len() == 1);
    let (block, words) = single.next().expect("an event");
    assert!(single.next().is_none());
    assert_eq!(pair.completions(0, 1)[0].status, WcStatus::Success);
    pair.sides[0].progress();
    assert!(pair.sides[0].cqs[0].take_event());
    (block.clone(), words[0] + 1)
}

/// The AEQ of side 0, and the place of its next entry.
fn async_queue(pair: &mut Simulated) -> (Block, usize) {
    let bad = Sge {
        lkey: u32::MAX,
        ..pair.sides[0].sge(0, 8)
    };
    let remote = pair.remote(A, 0);
    let request = SendWr {
        wr_id: 1,
        op: Op::Write {
            data: Data::Sges(&[bad]),
            remote,
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    };
    let found = changed(pair, |pair| {
        pair.sides[0].post_send(0, &[request]).unwrap();
        work_alone(pair);
    });
    let mut double = found.iter().filter(|(_, words)| words.len() == 2);
    let (block, words) = double.next().expect("an event");
    assert!(double.next().is_none());
    assert_eq!(words[0] % 2, 0);
    pair.completions(0, 1);
    pair.sides[0].reported.clear();
    for end in [A, B] {
        pair.renew(end);
    }
    for end in [A, B] {
        pair.connect(end);
    }
    (block.clone(), words[0] / 2 + 1)
}

#[test]
fn completions_that_nobody_waits_for() {
    let (sim, mut pair) = start(1);
    let real = real_entry(&pair);
    // The same again and again, then with a WQE index of anything.
    let mut random = words(1, 1 << 14).into_iter();
    let mut next = move || random.next().expect("enough");
    laps(&mut pair, 1, |entry| entry.copy_from_slice(&real));
    laps(&mut pair, 1, |entry| {
        entry.copy_from_slice(&real);
        // WQEIDX [46:32], OP [61:56], SQ [62].
        entry[3] ^= next() & (0x7FFF << 32 | 0x7F << 56);
    });
    laps(&mut pair, 1, |entry| {
        entry.copy_from_slice(&real);
        // An error that is no flush: major 2 and above.
        entry[3] = next() & (0x7FFF << 32 | 1 << 62 | 0xFFFF) | 1 << 55 | 2 << 16;
    });
    // Another QP's number with our context, and the other way round.
    laps(&mut pair, 1, |entry| {
        entry.copy_from_slice(&real);
        entry[2] ^= (1 + next() % 0xFF) << 32;
    });
    laps(&mut pair, 1, |entry| {
        entry.copy_from_slice(&real);
        entry[1] ^= 1 + next() % 0xFF_FFFF;
    });
    assert_eq!(real_entry(&pair)[0], real[0]);
    end(&sim, pair, &[]);
}

#[test]
fn events_of_no_cq() {
    let (sim, mut pair) = start(2);
    let (ring, head) = event_queue(&mut pair);
    for lap in 0..2 {
        let mut random = words(50 + lap, ring.words()).into_iter();
        fill(&ring, 1, head, |entry| {
            entry[0] = random.next().expect("enough");
        });
        let before = pair.sides[0].skipped;
        while pair.sides[0].progress().more {}
        let skipped = pair.sides[0].skipped - before;
        assert_eq!(skipped as usize, ring.words());
    }
    assert!(!pair.sides[0].cqs[0].take_event());
    // Events still come.
    let again = event_queue(&mut pair);
    assert_eq!(again, (ring, head + 1));
    end(&sim, pair, &[]);
}

#[test]
fn asynchronous_events_of_nothing() {
    let (sim, mut pair) = start(3);
    let (ring, head) = async_queue(&mut pair);
    let qp = u64::from(pair.number(A));
    for lap in 0..2 {
        let mut random = words(70 + lap, ring.words()).into_iter();
        fill(&ring, 2, head, |entry| {
            entry[0] = random.next().expect("enough");
            entry[1] = random.next().expect("enough");
            if entry[0] % 2 == 0 {
                // Our QP's number in the entry, the context of another life of it.
                entry[0] = (2 + (entry[0] >> 34)) << 32 | qp;
                entry[1] = entry[1] & !(0x3_FFFF | 1 << 46) | qp;
            }
            // OVERFLOW [33] ends the queue until a reset: not this test's.
            entry[1] &= !(1 << 33);
        });
        let entries = ring.words() / 2;
        let mut taken = 0;
        loop {
            let polled = pair.sides[0].progress();
            taken += (polled.events + polled.skipped) as usize;
            if !polled.more {
                break;
            }
        }
        assert_eq!(taken, entries);
    }
    // Only entries that name no object are told.
    assert!(pair.sides[0].skipped > 0);
    end(&sim, pair, &["aeq-credit"]);
}

/// Events were lost, the device says: told once, and what is said of it after
/// that is not believed. Queue pairs go on.
#[test]
fn an_event_queue_that_overflowed() {
    let (sim, mut pair) = start(4);
    let (ring, head) = async_queue(&mut pair);
    fill(&ring, 2, head, |entry| {
        // OVERFLOW [33], and an event of no object (AECODE 0).
        entry[1] = 1 << 33;
    });
    while pair.sides[0].progress().more {}
    let reported: Vec<_> = pair.sides[0].reported.drain(..).collect();
    let overflows = reported
        .iter()
        .filter(|event| event.kind == EventKind::AeqOverflow);
    assert_eq!(overflows.count(), 1, "{reported:?}");
    while pair.sides[0].progress().more {}
    assert_eq!(pair.sides[0].reported, [], "said once");
    end(&sim, pair, &["aeq-credit"]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_completions(seed in any::<u64>()) {
        let (sim, mut pair) = start(seed);
        let mut random = words(seed, 1 << 15).into_iter();
        // EXTCQE [50] says that an extension follows.
        for (slots, extended) in [(1, 0), (2, 1 << 50)] {
            laps(&mut pair, slots, |entry| {
                for word in &mut *entry {
                    *word = random.next().expect("enough");
                }
                entry[3] = entry[3] & !(1 << 50) | extended;
            });
        }
        end(&sim, pair, &[]);
    }
}
