//! QPs that go while rings are replaced: of the others nothing is lost, and a poll that finds less
//! than it was asked for leaves nothing behind.

use std::collections::VecDeque;

use e810_datapath::Wc;
use e810_hal::DmaWord;

use crate::common::{Bench, CqDevice, words};
use crate::gone::{complete, seen};
use crate::law::model::Rng;

#[test]
fn qps_go_while_rings_are_replaced() {
    let mut rng = Rng(0x00E8_1000_60E0_0002);
    for case in 0..if cfg!(miri) { 10 } else { 2_000 } {
        let size = |rng: &mut Rng| 3 + rng.below(6) as u32;
        let mut bench = Bench::new();
        let mut cq = bench.cq(0, size(&mut rng));
        let key = cq.key;
        let new = |bench: &mut Bench, id| Some(bench.qp(id, key, key));
        let mut qps: Vec<_> = (0..3).map(|id| new(&mut bench, id)).collect();
        let mut expected = VecDeque::new();
        let (mut written, mut wr_id, mut switches) = ([0u64; 3], 0u64, 0);
        for _ in 0..60 {
            match rng.below(12) {
                // The device goes on while there is room. As long as software has not begun the
                // ring at work, the head says nothing of it.
                0..=5 => {
                    let at = rng.below(3) as usize;
                    let entries = (cq.device.ring.len() / 4) as u64;
                    let [head, arm] = [0, 4].map(|word| cq.device.shadow[word].get());
                    let used = match arm & 0x3FFF == switches {
                        true => (cq.device.written % entries + entries - head) % entries,
                        false => cq.device.written,
                    };
                    if let Some(qp) = &mut qps[at]
                        && used + 3 <= entries
                        && qp.post_recv(wr_id).is_ok()
                    {
                        let imm = rng.one_in(2).then_some(wr_id as u32 ^ 0xABCD);
                        complete(&mut cq, qp, written[at], imm);
                        written[at] = (written[at] + 1) % 16;
                        expected.push_back((at as u32, wr_id, imm));
                        wr_id += 1;
                    }
                }
                6..=7 => {
                    let most = 1 + rng.below(3) as usize;
                    let mut wcs = vec![Wc::default(); most];
                    let done = cq.cq.poll(&mut wcs);
                    assert_eq!(done, expected.len().min(most), "case {case}");
                    for wc in &wcs[..done] {
                        assert_eq!(expected.pop_front(), Some(seen(wc)), "case {case}");
                    }
                }
                8 => {
                    if rng.one_in(2) {
                        cq.cq.pass_over_replaced();
                        while cq.cq.take_drained().is_some() {}
                    }
                    if cq.cq.can_resize() {
                        let entries = size(&mut rng);
                        let ring = words(entries as usize * 4);
                        cq.cq.resized(ring, entries).unwrap();
                        switches += 1;
                        cq.device = CqDevice {
                            ring,
                            shadow: cq.device.shadow,
                            written: 0,
                        };
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
