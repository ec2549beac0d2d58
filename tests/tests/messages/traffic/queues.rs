//! Several queue pairs, lists, and rings that wrap.

use e810::{Data, Op, SendFlags, SendWr, Sge, WcStatus};
use e810_tests::traffic::{End, Pair, Setup, pattern};

use e810_tests::traffic::scenarios::small;

use crate::traffic::exchange::{around, many, send, sim};

#[test]
fn looped_back_inside_one_function() {
    let sim = sim(15);
    let setup = Setup {
        queue_pairs: 4,
        ..Setup::default()
    };
    let mut pair = Pair::looped_back(&sim, setup);
    for qp in 0..4 {
        around(
            1024,
            &mut pair,
            [
                End { side: 0, qp },
                End {
                    side: 0,
                    qp: qp ^ 1,
                },
            ],
        );
    }
    pair.finish(&sim);
}

#[test]
fn several_queue_pairs_on_one_cq_and_on_two() {
    for separate_cqs in [false, true] {
        let sim = sim(16);
        let setup = Setup {
            queue_pairs: 3,
            separate_cqs,
            ..Setup::default()
        };
        let mut pair = Pair::simulated(&sim, setup);
        // One after the other.
        for qp in 0..3 {
            around(1024, &mut pair, [End { side: 0, qp }, End { side: 1, qp }]);
        }
        // All at once: each CQ gets what is its own.
        for qp in 0..3 {
            let sge = pair.sides[1].sge(pair.sides[1].incoming() + qp * 4096, 4096);
            pair.sides[1]
                .post_recv(qp, 100 + qp as u64, &[sge])
                .unwrap();
            send(
                &mut pair,
                End { side: 0, qp },
                qp as u64,
                qp * 4096,
                3000,
                true,
            );
        }
        let cqs = pair.sides[0].cqs.len();
        pair.until("three messages", |pair| {
            pair.sides.iter().all(|side| side.done.len() == 3)
        });
        for (side, cq, first) in [(0, 0, 0), (1, cqs - 1, 100)] {
            let mut ids: Vec<u64> = pair.sides[side]
                .done
                .iter()
                .inspect(|done| assert_eq!(done.cq, cq))
                .map(|done| done.wc.wr_id)
                .collect();
            ids.sort_unstable();
            assert_eq!(ids, [first, first + 1, first + 2]);
        }
        pair.finish(&sim);
    }
}

#[test]
fn lists_take_one_doorbell() {
    const SIZE: usize = 300;
    let sim = sim(17);
    let mut pair = Pair::simulated(&sim, Setup::default());
    for (serial, length) in (1..).zip([1, 4, 16, 64]) {
        let bytes = pattern(serial, length * SIZE);
        pair.sides[0].buffer.write(0, &bytes);
        let incoming = pair.sides[1].incoming();
        for n in 0..length {
            let sge = pair.sides[1].sge(incoming + n * SIZE, SIZE);
            pair.sides[1].post_recv(0, n as u64, &[sge]).unwrap();
        }
        let sges: Vec<[Sge; 1]> = (0..length)
            .map(|n| [pair.sides[0].sge(n * SIZE, SIZE)])
            .collect();
        let list: Vec<SendWr<'_>> = (0..)
            .zip(&sges)
            .map(|(wr_id, sge)| SendWr {
                wr_id,
                op: Op::Send {
                    data: Data::Sges(sge),
                    imm: None,
                },
                flags: SendFlags::SIGNALED,
            })
            .collect();
        let before = sim.stats(0).doorbells;
        pair.sides[0].post_send(0, &list).unwrap();
        assert!(sim.stats(0).doorbells - before <= 1, "{length}");
        for side in [0, 1] {
            let done = pair.completions(side, length);
            let ids: Vec<u64> = done.iter().map(|wc| wc.wr_id).collect();
            assert_eq!(ids, (0..length as u64).collect::<Vec<_>>());
            assert!(done.iter().all(|wc| wc.status == WcStatus::Success));
        }
        assert!(pair.sides[1].buffer.read(incoming, bytes.len()) == bytes);
    }
    pair.finish(&sim);
}

#[test]
fn unsignaled_work_completes_with_the_next_signaled() {
    for every in [2, 7, 16] {
        let sim = sim(19 + every);
        let mut pair = Pair::simulated(&sim, small());
        many(&mut pair, 600, every);
        pair.finish(&sim);
    }
}
