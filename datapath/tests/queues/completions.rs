//! The completion queue against a model, and against rubbish.

use std::collections::VecDeque;

use e810_datapath::{Wc, WcFlags, WcOpcode, WcStatus};
use e810_hal::DmaWord;
use proptest::prelude::*;

use crate::common::{Bench, ERROR_BIT, SQ_BIT, TestCq, TestQp};

fn poll_all(cq: &mut TestCq) -> Vec<Wc> {
    let mut wc = [Wc::default(); 3];
    let mut all = Vec::new();
    loop {
        let count = cq.cq.poll(&mut wc);
        all.extend_from_slice(&wc[..count]);
        if count == 0 {
            return all;
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send { qp: usize, signaled: bool },
    Recv { qp: usize },
    Complete { qp: usize, recv: bool, imm: bool },
    Poll { most: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0usize..2, any::<bool>()).prop_map(|(qp, signaled)| Step::Send { qp, signaled }),
        3 => (0usize..2).prop_map(|qp| Step::Recv { qp }),
        5 => (0usize..2, any::<bool>(), any::<bool>())
            .prop_map(|(qp, recv, imm)| Step::Complete { qp, recv, imm }),
        3 => (0usize..9).prop_map(|most| Step::Poll { most }),
    ]
}

#[derive(Default)]
struct Queue {
    /// wr_id, index, signaled.
    outstanding: VecDeque<(u64, u64, bool)>,
    next: u64,
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Two QPs on one CQ of a size that is no power of two; entries with and
    /// without extension, in every place of the ring.
    #[test]
    fn completions_come_in_the_order_the_device_wrote_them(
        entries in 5u32..12,
        steps in prop::collection::vec(step(), 0..if cfg!(miri) { 60 } else { 400 }),
    ) {
        let mut bench = Bench::new();
        let mut cq = bench.cq(1, entries);
        let mut qps = [bench.qp(0, cq.key, cq.key), bench.qp(3, cq.key, cq.key)];
        let mut sent = [Queue::default(), Queue::default()];
        let mut received = [Queue::default(), Queue::default()];
        let mut expected: VecDeque<(u64, WcOpcode, Option<u32>)> = VecDeque::new();
        let mut id = 0;
        for step in steps {
            id += 1;
            match step {
                Step::Send { qp, signaled } => {
                    if qps[qp].post(id, 1, signaled).is_ok() {
                        let queue = &mut sent[qp];
                        queue.outstanding.push_back((id, queue.next % 512, signaled));
                        queue.next += 1;
                    }
                }
                Step::Recv { qp } => {
                    if qps[qp].post_recv(id).is_ok() {
                        let queue = &mut received[qp];
                        queue.outstanding.push_back((id, queue.next % 16, true));
                        queue.next += 1;
                    }
                }
                Step::Complete { qp, recv, imm } => {
                    let key = qps[qp].key;
                    let queue = if recv { &mut received[qp] } else { &mut sent[qp] };
                    while let Some((_, _, false)) = queue.outstanding.front() {
                        queue.outstanding.pop_front();
                    }
                    // An entry and an extension must have room.
                    if room(&cq) < 2 {
                        continue;
                    }
                    if let Some((wr_id, index, _)) = queue.outstanding.pop_front() {
                        if !recv {
                            cq.device.sent(key, index);
                            expected.push_back((wr_id, WcOpcode::Send, None));
                        } else if imm {
                            cq.device.complete(key, 1 << 50 | 0x0B << 56 | index << 32);
                            cq.device.write([id, 0, 0, 1 << 62]);
                            let opcode = WcOpcode::RecvRdmaWithImm;
                            expected.push_back((wr_id, opcode, Some(id as u32)));
                        } else {
                            cq.device.received(key, index);
                            expected.push_back((wr_id, WcOpcode::Recv, None));
                        }
                    }
                }
                Step::Poll { most } => {
                    let mut wc = [Wc::default(); 9];
                    let count = cq.cq.poll(&mut wc[..most]);
                    prop_assert_eq!(count, most.min(expected.len()));
                    for wc in &wc[..count] {
                        let imm = wc.flags.contains(WcFlags::WITH_IMM).then_some(wc.imm);
                        let got = (wc.wr_id, wc.opcode, imm);
                        prop_assert_eq!(Some(got), expected.pop_front());
                        prop_assert_eq!(wc.status, WcStatus::Success);
                    }
                }
            }
            let places = |(_, _, imm): &(_, _, Option<u32>)| 1 + u32::from(imm.is_some());
            let waiting: u32 = expected.iter().map(places).sum();
            prop_assert_eq!(cq.cq.waiting(), waiting);
        }
        let rest: Vec<u64> = poll_all(&mut cq).iter().map(|wc| wc.wr_id).collect();
        let expected: Vec<u64> = expected.iter().map(|(wr_id, ..)| *wr_id).collect();
        prop_assert_eq!(rest, expected);
        let counters = cq.cq.counters();
        prop_assert_eq!(counters, Default::default());
    }

    /// Whatever the device writes: no panic, and each request completes at most
    /// once, in order, and only if it was posted.
    #[test]
    fn rubbish_moves_no_qp(
        rubbish in prop::collection::vec(
            (any::<[u64; 4]>(), 0u8..8, 0u64..40),
            1..if cfg!(miri) { 30 } else { 200 },
        ),
    ) {
        let mut bench = Bench::new();
        let mut cq = bench.cq(1, 16);
        let other = bench.cq(2, 16);
        let mut qp = bench.qp(0, cq.key, cq.key);
        let mut foreign = bench.qp(1, other.key, other.key);
        for n in 0..10 {
            qp.post(n, 1, n % 2 == 0).unwrap();
            qp.post_recv(100 + n).unwrap();
            foreign.post(200 + n, 1, true).unwrap();
        }
        let mut seen = Vec::new();
        for (mut words, kind, index) in rubbish {
            // Random bits, made more likely to get past each check.
            if kind > 0 {
                words[1] = if kind == 1 { foreign.key.bits() } else { qp.key.bits() };
                words[2] = words[2] & 0xFFFF_FFFF | (words[1] & 0xFF_FFFF) << 32;
            }
            if kind > 2 {
                words[3] = words[3] & !(0x7FFF << 32) | index << 32;
            }
            if kind > 4 {
                words[3] &= !ERROR_BIT;
            }
            if kind > 5 {
                words[3] &= !(1 << 50);
            }
            cq.device.write(words);
            seen.extend(poll_all(&mut cq).iter().map(|wc| wc.wr_id));
        }
        let sends: Vec<u64> = seen.iter().copied().filter(|id| *id < 100).collect();
        let recvs: Vec<u64> = seen.iter().copied().filter(|id| *id >= 100).collect();
        for (list, range) in [(sends, 0..10), (recvs, 100..110)] {
            prop_assert!(list.windows(2).all(|pair| pair[0] < pair[1]), "{list:?}");
            prop_assert!(list.iter().all(|id| range.contains(id)), "{list:?}");
        }
        prop_assert_eq!(foreign.send.free_quanta(), 245, "another CQ's QP is untouched");
    }
}

/// Entries of the ring that the device may still write.
fn room(cq: &TestCq) -> u64 {
    let entries = u64::from(cq.cq.entries());
    let head = cq.device.shadow[0].get();
    let used = (cq.device.written + entries - head) % entries;
    // A ring that looks empty may be full; the model keeps one entry free.
    entries - 1 - used
}

fn two() -> (Bench, TestCq, TestQp) {
    let mut bench = Bench::new();
    let cq = bench.cq(1, 16);
    let qp = bench.qp(2, cq.key, cq.key);
    (bench, cq, qp)
}

#[test]
fn each_kind_of_rubbish_is_counted() {
    let (mut bench, mut cq, mut qp) = two();
    let other = bench.cq(2, 16);
    let foreign = bench.qp(3, other.key, other.key);
    for n in 0..4 {
        qp.post(n, 3, n != 1).unwrap();
        qp.post_recv(n).unwrap();
    }
    let id = u64::from(qp.key.id()) << 32;
    let ok = SQ_BIT | 3 << 56;
    let stale = [
        [0, 0, 0, ok],
        [0, u64::MAX, u64::MAX, ok],
        // Another generation; an id past the table.
        [0, qp.key.bits() + (1 << 32), id, ok],
        [0, 1 << 32 | 0xFF_FFFF, 0xFF_FFFF << 32, ok],
    ];
    for words in stale {
        cq.device.write(words);
    }
    let malformed = [
        // Of a QP on another CQ.
        [0, foreign.key.bits(), 3 << 32, ok],
        // Past the ring, inside a WQE, not signaled, not posted.
        [0, qp.key.bits(), id, ok | 0x7FFF << 32],
        [0, qp.key.bits(), id, ok | 1 << 32],
        [0, qp.key.bits(), id, ok | 2 << 32],
        [0, qp.key.bits(), id, ok | 8 << 32],
        // Failed, at a place that is no request; a receive that is not posted.
        [0, qp.key.bits(), id, ok | ERROR_BIT | 2 << 16 | 3 << 32],
        [0, qp.key.bits(), id, 4 << 56 | 4 << 32],
    ];
    for words in malformed {
        cq.device.write(words);
    }
    assert!(poll_all(&mut cq).is_empty());
    let counters = cq.cq.counters();
    assert_eq!((counters.stale, counters.malformed), (4, 7));
    assert_eq!(qp.send.free_quanta(), 255 - 8, "no QP has moved");
    assert_eq!(qp.recv.free_slots(), 11);

    // The same request twice: the second is rubbish.
    cq.device.sent(qp.key, 0);
    cq.device.sent(qp.key, 0);
    assert_eq!(poll_all(&mut cq).len(), 1);
    assert_eq!(cq.cq.counters().malformed, 8);
}

/// The context says whose an entry is, as with existing drivers; the number beside
/// it may be left empty: one a call, in runs, and the slow path.
#[test]
fn an_entry_is_found_by_its_context_alone() {
    for number in [0, 3, 0xFF_FFFF] {
        for batch in [1, 4] {
            for solicited in [0, 1 << 54] {
                let (_bench, mut cq, mut qp) = two();
                for n in 0..2 {
                    qp.post(n, 1, true).unwrap();
                    qp.post_recv(10 + n).unwrap();
                }
                for index in 0..2u64 {
                    let send = SQ_BIT | 3 << 56 | index << 32 | solicited;
                    cq.device.write([0, qp.key.bits(), number << 32, send]);
                }
                for index in 0..2u64 {
                    let receive = 4 << 56 | index << 32 | solicited;
                    cq.device.write([64, qp.key.bits(), number << 32, receive]);
                }
                let mut all = Vec::new();
                let mut wc = [Wc::default(); 4];
                for _ in 0..4 {
                    let got = cq.cq.poll(&mut wc[..batch]);
                    all.extend_from_slice(&wc[..got]);
                }
                let ids: Vec<_> = all.iter().map(|wc| wc.wr_id).collect();
                assert_eq!(ids, [0, 1, 10, 11]);
                assert!(all.iter().all(|wc| wc.qp_num == qp.key.id()));
                assert_eq!(cq.cq.counters(), Default::default());
            }
        }
    }
}

/// A device that never stops writing rubbish does not keep a poll for ever.
#[test]
fn a_poll_ends() {
    let (_bench, mut cq, _qp) = two();
    // Both polarities at once cannot be; every entry valid for this lap is the
    // most one poll can meet.
    for _ in 0..16 {
        cq.device.write([0, 1, 2, SQ_BIT]);
    }
    assert!(poll_all(&mut cq).is_empty());
    assert_eq!(cq.cq.counters().stale, 16);
}

#[test]
fn receives_that_are_passed_over_are_counted() {
    let (_bench, mut cq, mut qp) = two();
    for n in 0..5 {
        qp.post_recv(n).unwrap();
    }
    cq.device.received(qp.key, 2);
    let all = poll_all(&mut cq);
    assert_eq!(all.iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), [2]);
    assert_eq!(cq.cq.counters().receives_passed_over, 2);
    assert_eq!(qp.recv.free_slots(), 13);
}

/// An error is reported also for a request that was not signaled, and retires
/// what was before it; receives fail oldest first, whatever the index.
#[test]
fn errors_that_are_no_flush() {
    let (_bench, mut cq, mut qp) = two();
    for n in 0..3 {
        qp.post(n, 1, false).unwrap();
        qp.post_recv(10 + n).unwrap();
    }
    let error = ERROR_BIT | 0x8000 << 16 | 0x12;
    cq.device
        .complete(qp.key, SQ_BIT | 3 << 56 | error | 1 << 32);
    cq.device.complete(qp.key, 4 << 56 | error | 0x7FFF << 32);
    let all = poll_all(&mut cq);
    let got: Vec<_> = all
        .iter()
        .map(|wc| (wc.wr_id, wc.status, wc.vendor_err))
        .collect();
    assert_eq!(
        got,
        [
            (1, WcStatus::GeneralErr, 0x8000_0012),
            (10, WcStatus::GeneralErr, 0x8000_0012)
        ]
    );
    assert_eq!((qp.send.free_quanta(), qp.recv.free_slots()), (254, 13));
}

/// Where a datagram came from stands in its extension entry; a completion without
/// one has no sender, also when the one before had.
#[test]
fn a_datagram_says_where_it_came_from() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(0, 16);
    let mut qp = bench.datagram_qp(2, cq.key, cq.key);
    let mac = 0x0203_0405_0607;
    let tag = 5 << 13 | 100;
    let cases = [
        (Some(1 << 61), Some(None)),
        (Some(1 << 61 | 1 << 60), Some(Some(tag))),
        (Some(1 << 62), None),
        (None, None),
    ];
    for (index, (extension, wanted)) in (0..).zip(cases) {
        qp.post_recv(index).unwrap();
        let extended = u64::from(extension.is_some()) << 50;
        cq.device.complete(qp.key, 4 << 56 | extended | index << 32);
        if let Some(bits) = extension {
            cq.device.write([7, 0, u64::from(tag) << 48 | mac, bits]);
        }
        let (wc, sender) = cq.cq.poll_with_sender().unwrap();
        assert_eq!((wc.wr_id, wc.status), (index, WcStatus::Success));
        assert_eq!(sender.map(|sender| sender.vlan_tag), wanted);
        if let Some(sender) = sender {
            assert_eq!(sender.mac, [2, 3, 4, 5, 6, 7]);
        }
    }
    assert_eq!(cq.cq.poll_with_sender(), None);
}
