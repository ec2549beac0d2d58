//! QPs that are gone leave a completion queue that nobody polls: their numbers and their places in
//! the ring are free, and the others lose nothing.

use std::collections::VecDeque;

use e810_datapath::{QpState, Wc, WcOpcode};
use e810_hal::DmaWord;

use crate::common::{Bench, FLUSH, SQ_BIT, TestCq, TestQp, words};
use crate::law::model::Rng;

/// A queue that is never polled gives back what was destroyed, round after round.
#[test]
fn numbers_come_back_without_a_poll() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(0, 16);
    for round in 0..100 {
        let mut qp = bench.qp(1, cq.key, cq.key);
        qp.post(1, 1, true).unwrap();
        qp.post_recv(2).unwrap();
        if round % 3 > 0 {
            bench.registry.set_state(qp.key, QpState::Err).unwrap();
            bench.registry.sweep(qp.key).unwrap();
        }
        if round % 3 > 1 {
            // A flush that is under way.
            qp.post(3, 1, true).unwrap();
            cq.device.complete(qp.key, SQ_BIT | FLUSH);
            assert_eq!(cq.cq.poll(&mut [Wc::default()]), 1);
        }
        bench.registry.hide_qp(qp.key).unwrap();
        bench.registry.retire(qp.key).unwrap();
        assert_eq!(bench.registry.reap(), None);
        cq.cq.forget_gone();
        assert_eq!(bench.registry.reap(), Some(1), "round {round}");
    }
    assert_eq!(cq.cq.poll(&mut [Wc::default(); 4]), 0);
}

/// Entries of one and of two places, of three QPs, at any place of the ring, whichever are
/// destroyed; in half of the cases rings are replaced meanwhile. What stays is what was there, in
/// its order; a ring that was never replaced has room for as many again.
#[test]
fn what_stays_is_whole_and_in_order() {
    let mut rng = Rng(0x00E8_1000_60E0_0001);
    for case in 0..if cfg!(miri) { 20 } else { 4_000 } {
        let size = |rng: &mut Rng| 3 + rng.below(10) as u32;
        let is_resized = rng.one_in(2);
        let mut bench = Bench::new();
        let mut cq = bench.cq(0, size(&mut rng));
        let key = cq.key;
        let new = |bench: &mut Bench, id| Some(bench.qp(id, key, key));
        let mut qps: Vec<_> = (0..3).map(|id| new(&mut bench, id)).collect();
        let mut expected = VecDeque::new();
        let (mut written, mut wr_id, mut switches) = ([0u64; 3], 0u64, 0);
        for _ in 0..60 {
            match rng.below(12) {
                // The device goes on while there is room.
                0..=6 => {
                    let at = rng.below(3) as usize;
                    if let Some(qp) = &mut qps[at]
                        && has_room(&cq, switches)
                        && qp.post_recv(wr_id).is_ok()
                    {
                        let imm = rng.one_in(2).then_some(wr_id as u32 ^ 0xABCD);
                        complete(&mut cq, qp, written[at], imm);
                        written[at] = (written[at] + 1) % 16;
                        expected.push_back((at as u32, wr_id, imm));
                        wr_id += 1;
                    }
                }
                7..=8 => {
                    let most = 1 + rng.below(3) as usize;
                    let mut wcs = vec![Wc::default(); most];
                    let done = cq.cq.poll(&mut wcs);
                    assert_eq!(done, expected.len().min(most), "case {case}");
                    for wc in &wcs[..done] {
                        assert_eq!(expected.pop_front(), Some(seen(wc)), "case {case}");
                    }
                }
                9 if is_resized => {
                    if rng.one_in(2) {
                        cq.cq.pass_over_replaced();
                        while cq.cq.take_drained().is_some() {}
                    }
                    if cq.cq.can_resize() {
                        let entries = size(&mut rng);
                        let ring = words(entries as usize * 4);
                        cq.cq.resized(ring, entries).unwrap();
                        switches += 1;
                        (cq.device.ring, cq.device.written) = (ring, 0);
                    }
                }
                _ => {
                    let at = rng.below(3) as usize;
                    let Some(qp) = qps[at].take() else {
                        continue;
                    };
                    bench.registry.hide_qp(qp.key).unwrap();
                    bench.registry.retire(qp.key).unwrap();
                    cq.cq.forget_gone();
                    expected.retain(|(of, ..)| *of != at as u32);
                    if switches == 0 {
                        let places = |(_, _, imm): &(u32, u64, Option<u32>)| match imm {
                            Some(_) => 2,
                            None => 1,
                        };
                        let stay: u64 = expected.iter().map(places).sum();
                        assert_eq!(u64::from(cq.cq.waiting()), stay, "case {case}");
                        let head = (cq.device.written - stay) % entries_of(&cq);
                        assert_eq!(cq.device.shadow[0].get(), head, "what the device sees");
                    }
                    assert_eq!(bench.registry.reap(), Some(at as u32));
                    qps[at] = new(&mut bench, at as u32);
                    written[at] = 0;
                }
            }
        }
        while let Some(next) = expected.pop_front() {
            let mut wc = [Wc::default()];
            assert_eq!(cq.cq.poll(&mut wc), 1, "case {case}");
            assert_eq!(seen(&wc[0]), next, "case {case}");
        }
        assert_eq!(cq.cq.poll(&mut [Wc::default()]), 0);
        let counters = cq.cq.counters();
        assert_eq!((counters.malformed, counters.receives_passed_over), (0, 0));
    }
}

/// Entries of the ring at work.
fn entries_of(cq: &TestCq) -> u64 {
    (cq.device.ring.len() / 4) as u64
}

/// Whether the device has two places. As long as software has not begun the ring at work, the head
/// says nothing of it; of one that was replaced a full ring looks like an empty one.
fn has_room(cq: &TestCq, switches: u64) -> bool {
    let entries = entries_of(cq);
    if switches == 0 {
        return u64::from(cq.cq.waiting()) + 2 <= entries;
    }
    let [head, arm] = [0, 4].map(|word| cq.device.shadow[word].get());
    let used = match arm & 0x3FFF == switches {
        true => (cq.device.written % entries + entries - head) % entries,
        false => cq.device.written,
    };
    used + 3 <= entries
}

/// The device completes the receive at `index`.
fn complete(cq: &mut TestCq, qp: &TestQp, index: u64, imm: Option<u32>) {
    match imm {
        None => cq.device.received(qp.key, index),
        Some(imm) => {
            cq.device
                .complete(qp.key, 1 << 50 | 0x0B << 56 | index << 32);
            cq.device.write([imm.into(), 0, 0, 1 << 62]);
        }
    }
}

fn seen(wc: &Wc) -> (u32, u64, Option<u32>) {
    let imm = (wc.opcode == WcOpcode::RecvRdmaWithImm).then_some(wc.imm);
    (wc.qp_num, wc.wr_id, imm)
}

/// An entry whose extension the device has not written yet stays, and so does what it is of.
#[test]
fn half_an_entry_is_left_alone() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(0, 8);
    let (gone, mut stays) = (bench.qp(1, cq.key, cq.key), bench.qp(2, cq.key, cq.key));
    stays.post_recv(7).unwrap();
    cq.device.received(gone.key, 0);
    cq.device.complete(stays.key, 1 << 50 | 0x0B << 56);
    bench.registry.hide_qp(gone.key).unwrap();
    bench.registry.retire(gone.key).unwrap();
    cq.cq.forget_gone();
    assert_eq!(cq.cq.poll(&mut [Wc::default()]), 0);
    cq.device.write([0x1234, 0, 0, 1 << 62]);
    let mut wc = [Wc::default()];
    assert_eq!(cq.cq.poll(&mut wc), 1);
    assert_eq!(seen(&wc[0]), (2, 7, Some(0x1234)));
}
