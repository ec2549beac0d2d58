//! QPs that are gone leave a completion queue that nobody polls: their numbers and their places in
//! the ring are free, and the others lose nothing.

use std::collections::VecDeque;

use e810_datapath::{QpState, Wc, WcOpcode};
use e810_hal::DmaWord;

use crate::common::{Bench, FLUSH, SQ_BIT, TestCq, TestQp};
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
/// destroyed: what stays is what was there, in its order, and the ring has room for as many again.
#[test]
fn what_stays_is_whole_and_in_order() {
    let mut rng = Rng(0x00E8_1000_60E0_0001);
    for _ in 0..if cfg!(miri) { 10 } else { 3_000 } {
        let entries = 4 + rng.below(9);
        let mut bench = Bench::new();
        let mut cq = bench.cq(0, entries as u32);
        let mut qps: Vec<_> = (0..3)
            .map(|id| Some(bench.qp(id, cq.key, cq.key)))
            .collect();
        let mut expected = VecDeque::new();
        let (mut written, mut wr_id) = ([0u64; 3], 0u64);
        for _ in 0..30 {
            match rng.below(8) {
                // The device goes on while there is room.
                0..=5 => {
                    let at = rng.below(3) as usize;
                    let used = u64::from(cq.cq.waiting());
                    if let Some(qp) = &mut qps[at]
                        && used + 2 <= entries
                    {
                        wr_id += 1;
                        qp.post_recv(wr_id).unwrap();
                        let imm = rng.one_in(2).then_some(wr_id as u32 ^ 0xABCD);
                        complete(&mut cq, qp, written[at], imm);
                        written[at] = (written[at] + 1) % 16;
                        expected.push_back((at as u32, wr_id, imm));
                    }
                }
                6 => {
                    let mut wc = [Wc::default()];
                    let done = cq.cq.poll(&mut wc);
                    assert_eq!(done, expected.len().min(1));
                    assert_eq!(expected.pop_front(), (done == 1).then(|| seen(&wc[0])));
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
                    let stay: u64 = expected
                        .iter()
                        .map(|(_, _, imm)| 1 + u64::from(imm.is_some()))
                        .sum();
                    assert_eq!(u64::from(cq.cq.waiting()), stay);
                    let head = (cq.device.written - stay) % entries;
                    assert_eq!(cq.device.shadow[0].get(), head, "what the device sees");
                    assert_eq!(bench.registry.reap(), Some(at as u32));
                    qps[at] = Some(bench.qp(at as u32, cq.key, cq.key));
                    written[at] = 0;
                }
            }
        }
        while let Some(next) = expected.pop_front() {
            let mut wc = [Wc::default()];
            assert_eq!(cq.cq.poll(&mut wc), 1);
            assert_eq!(seen(&wc[0]), next);
        }
        let counters = cq.cq.counters();
        assert_eq!((counters.malformed, counters.receives_passed_over), (0, 0));
    }
}

/// The device completes the receive at `index`.
pub(crate) fn complete(cq: &mut TestCq, qp: &TestQp, index: u64, imm: Option<u32>) {
    match imm {
        None => cq.device.received(qp.key, index),
        Some(imm) => {
            cq.device
                .complete(qp.key, 1 << 50 | 0x0B << 56 | index << 32);
            cq.device.write([imm.into(), 0, 0, 1 << 62]);
        }
    }
}

pub(crate) fn seen(wc: &Wc) -> (u32, u64, Option<u32>) {
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
