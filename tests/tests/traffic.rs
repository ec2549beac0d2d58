//! Verified traffic between two devices, in virtual time.
//!
//! Every run ends with all memory given back and nothing found by the simulator.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like the tests"
)]

use e810::{Data, Mtu, Op, QpCaps, SendFlags, SendWr, Sge, WcStatus};
use e810_sim::{Quality, Runs, Sim};
use e810_tests::traffic::{Buffer, End, Kind, Pair, Report, Setup, Transfer, pattern};

const A: End = End { side: 0, qp: 0 };
const B: End = End { side: 1, qp: 0 };
const KINDS: [Kind; 3] = [Kind::Send, Kind::Write, Kind::Read];
const MTUS: [Mtu; 5] = [
    Mtu::Mtu256,
    Mtu::Mtu512,
    Mtu::Mtu1024,
    Mtu::Mtu2048,
    Mtu::Mtu4096,
];

fn sim(seed: u64) -> Sim {
    Sim::builder().functions(2).seed(seed).build()
}

/// All three operations, at sizes around one packet, both ways.
fn around(mtu: usize, pair: &mut Pair<impl e810::Platform>, ends: [End; 2]) {
    for size in [0, 1, mtu - 1, mtu, mtu + 1] {
        for kind in KINDS {
            for from in ends {
                pair.transfer(from, &Transfer::new(kind, size));
            }
        }
    }
}

#[test]
fn every_operation_at_every_size_and_path_mtu() {
    for (seed, mtu) in (1..).zip(MTUS) {
        let sim = sim(seed);
        let mut pair = Pair::simulated(
            &sim,
            Setup {
                mtu,
                ..Setup::default()
            },
        );
        around(mtu.bytes() as usize, &mut pair, [A, B]);
        for kind in KINDS {
            pair.transfer(A, &Transfer::new(kind, 64 << 10));
        }
        pair.finish(&sim);
    }
}

#[test]
fn ipv6() {
    let sim = sim(10);
    let setup = Setup {
        ipv6: true,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    around(1024, &mut pair, [A, B]);
    pair.finish(&sim);
}

#[test]
fn a_megabyte() {
    let sim = sim(11);
    let setup = Setup {
        buffer: 4 << 20,
        mtu: Mtu::Mtu4096,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    for kind in KINDS {
        pair.transfer(A, &Transfer::new(kind, (1 << 20) + 77));
    }
    pair.finish(&sim);
}

#[test]
fn inline_of_every_length_and_cut() {
    let sim = sim(12);
    let setup = Setup {
        caps: QpCaps {
            max_send_sge: 13,
            ..Setup::default().caps
        },
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    for size in 0..=101 {
        for kind in [Kind::Send, Kind::Write] {
            for imm in [None, Some(0x0102_0304)] {
                let transfer = Transfer {
                    inline: true,
                    imm,
                    pieces: 1 + size % 13,
                    ..Transfer::new(kind, size)
                };
                pair.transfer(A, &transfer);
            }
        }
    }
    pair.finish(&sim);
}

#[test]
fn immediate_data() {
    let sim = sim(13);
    let mut pair = Pair::simulated(&sim, Setup::default());
    for imm in [0, 1, 0x1234_5678, u32::MAX] {
        for kind in [Kind::Send, Kind::Write] {
            for size in [0, 1, 1024, 5000] {
                for from in [A, B] {
                    let transfer = Transfer {
                        imm: Some(imm),
                        ..Transfer::new(kind, size)
                    };
                    pair.transfer(from, &transfer);
                }
            }
        }
    }
    pair.finish(&sim);
}

#[test]
fn every_number_of_sges() {
    let sim = sim(14);
    let setup = Setup {
        caps: QpCaps {
            max_send_sge: 13,
            max_recv_sge: 13,
            ..Setup::default().caps
        },
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    for pieces in 1..=13 {
        for kind in KINDS {
            for size in [100, 9000] {
                let transfer = Transfer {
                    pieces,
                    offset: 64 + pieces,
                    ..Transfer::new(kind, size)
                };
                pair.transfer(A, &transfer);
            }
        }
        for imm in [Some(7), None] {
            let transfer = Transfer {
                pieces,
                imm,
                ..Transfer::new(Kind::Write, 2500)
            };
            pair.transfer(B, &transfer);
        }
    }
    pair.finish(&sim);
}

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

/// Posts one SEND of a part of the outgoing half.
fn send(
    pair: &mut Pair<impl e810::Platform>,
    from: End,
    wr_id: u64,
    offset: usize,
    size: usize,
    signaled: bool,
) {
    let side = pair.side(from.side);
    let sge = side.sge(offset, size);
    let request = SendWr {
        wr_id,
        op: Op::Send {
            data: Data::Sges(&[sge]),
            imm: None,
        },
        flags: match signaled {
            true => SendFlags::SIGNALED,
            false => SendFlags::empty(),
        },
    };
    side.post_send(from.qp, &[request]).unwrap();
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

/// Many messages through small queues: every ring wraps many times. Of `every`
/// sends one is signaled.
fn many(pair: &mut Pair<impl e810::Platform>, messages: u64, every: u64) {
    const SLOT: usize = 1024;
    const AHEAD: u64 = 48;
    let incoming = pair.sides[1].incoming();
    let (mut posted, mut sent, mut received) = (0u64, 0u64, 0u64);
    let size = |n: u64| 1 + (n * 37 % SLOT as u64) as usize;
    let offset = |n: u64| (n % AHEAD) as usize * SLOT;
    pair.until("all messages", |pair| {
        while posted < messages && posted < sent.min(received) + AHEAD {
            let n = posted;
            let sge = pair.sides[1].sge(incoming + offset(n), SLOT);
            pair.sides[1].post_recv(0, n, &[sge]).unwrap();
            let bytes = pattern(n, size(n));
            pair.sides[0].buffer.write(offset(n), &bytes);
            let signaled = n % every == every - 1 || n + 1 == messages;
            send(pair, A, n, offset(n), size(n), signaled);
            posted += 1;
        }
        for wc in pair.side(0).take() {
            assert_eq!(wc.status, WcStatus::Success);
            assert!(wc.wr_id % every == every - 1 || wc.wr_id + 1 == messages);
            assert!(wc.wr_id >= sent, "in order, each once");
            sent = wc.wr_id + 1;
        }
        for wc in pair.side(1).take() {
            assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, received));
            assert_eq!(wc.byte_len as usize, size(received));
            let arrived = pair.sides[1]
                .buffer
                .read(incoming + offset(received), size(received));
            assert!(arrived == pattern(received, size(received)), "{received}");
            received += 1;
        }
        sent == messages && received == messages
    });
}

/// Rings of the smallest size.
fn small() -> Setup {
    Setup {
        caps: QpCaps {
            max_send_wr: 60,
            max_recv_wr: 60,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        },
        cqe: 128,
        ..Setup::default()
    }
}

#[test]
fn rings_wrap_many_times() {
    let sim = sim(18);
    let mut pair = Pair::simulated(&sim, small());
    // SQ of 512 quanta, RQ of 64 slots, CQ of some 256 entries.
    many(&mut pair, 5000, 1);
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

#[test]
fn a_bad_wire_loses_nothing() {
    for (seed, quality) in (30..).zip([
        Quality {
            loss: 30_000,
            ..Quality::PERFECT
        },
        Quality {
            duplicate: 100_000,
            ..Quality::PERFECT
        },
        Quality {
            reorder: 50_000,
            ..Quality::PERFECT
        },
        Quality {
            loss: 10_000,
            duplicate: 10_000,
            reorder: 10_000,
            corrupt: 10_000,
            ..Quality::PERFECT
        },
    ]) {
        let sim = Sim::builder()
            .functions(2)
            .seed(seed)
            .quality(quality)
            .build();
        let mut pair = Pair::simulated(&sim, Setup::default());
        for round in 0..12 {
            for kind in KINDS {
                pair.transfer(A, &Transfer::new(kind, round * 1111));
                pair.transfer(B, &Transfer::new(kind, 20_000 + round));
            }
        }
        many(&mut pair, 300, 4);
        let link = sim.link();
        let touched = link.lost + link.duplicated + link.reordered + link.corrupted;
        assert!(touched > 5, "the wire was not bad: {link:?}");
        pair.finish(&sim);
    }
}

#[test]
fn memory_cut_into_runs() {
    // 2 x 3 MiB are 1536 pages: one level of PBLEs covers 512.
    for (seed, runs, buffer) in [
        (40, Runs::Contiguous, 6 << 20),
        (41, Runs::PerPage, 64 << 10),
        (42, Runs::Chunks, 1 << 20),
        (43, Runs::PerPage, 6 << 20),
        (44, Runs::Chunks, 6 << 20),
    ] {
        let sim = Sim::builder().functions(2).seed(seed).runs(runs).build();
        let setup = Setup {
            buffer,
            ..Setup::default()
        };
        let mut pair = Pair::simulated(&sim, setup);
        let half = buffer / 2;
        for offset in [64, 4095, 4096 - 64, half / 2 + 3, half - 13_000] {
            for kind in KINDS {
                let transfer = Transfer {
                    offset,
                    pieces: 2,
                    ..Transfer::new(kind, 12_345)
                };
                pair.transfer(A, &transfer);
            }
        }
        pair.finish(&sim);
    }
}

#[test]
fn a_region_may_begin_inside_a_page() {
    for (seed, runs) in (45..).zip([Runs::Contiguous, Runs::PerPage, Runs::Chunks]) {
        let sim = Sim::builder().functions(2).seed(seed).runs(runs).build();
        let mut pair = Pair::simulated(&sim, Setup::default());
        let memory = Buffer::new(5 * 4096);
        let bytes = pattern(seed, 3 * 4096);
        memory.write(1000, &bytes);
        let side = &mut pair.sides[0];
        let window = memory.bytes().window(1000, bytes.len()).unwrap();
        let mr = side
            .control
            .reg_mr(&side.pd, window, Setup::ACCESS)
            .unwrap();
        let sge = Sge {
            addr: mr.address(),
            length: mr.len() as u32,
            lkey: mr.lkey(),
        };
        let incoming = pair.sides[1].incoming();
        let remote = pair.remote(A, incoming);
        let request = SendWr {
            wr_id: 5,
            op: Op::Write {
                data: Data::Sges(&[sge]),
                remote,
                imm: None,
            },
            flags: SendFlags::SIGNALED,
        };
        pair.sides[0].post_send(0, &[request]).unwrap();
        assert_eq!(pair.completions(0, 1)[0].status, WcStatus::Success);
        assert!(pair.sides[1].buffer.read(incoming, bytes.len()) == bytes);
        let side = &mut pair.sides[0];
        side.control
            .dereg_mr(mr)
            .map_err(|(_, error)| error)
            .unwrap();
        pair.finish(&sim);
    }
}

#[test]
fn contexts_written_through_to_memory() {
    let sim = Sim::builder()
        .functions(2)
        .seed(50)
        .engine(|_, config| config.write_through = true)
        .build();
    let mut pair = Pair::simulated(&sim, Setup::default());
    around(1024, &mut pair, [A, B]);
    many(&mut pair, 200, 3);
    pair.finish(&sim);
}

fn replay(seed: u64) -> (Report, Vec<u8>) {
    let quality = Quality {
        loss: 20_000,
        reorder: 20_000,
        ..Quality::PERFECT
    };
    let sim = Sim::builder()
        .functions(2)
        .seed(seed)
        .quality(quality)
        .build();
    let mut pair = Pair::simulated(&sim, Setup::default());
    around(1024, &mut pair, [A, B]);
    many(&mut pair, 150, 2);
    let payload = pair.sides[1].buffer.read(0, Setup::default().buffer);
    (pair.finish(&sim), payload)
}

#[test]
fn one_seed_gives_one_run() {
    let (first, payload) = replay(60);
    assert!((first.clone(), payload) == replay(60));
    assert_ne!(first, replay(61).0);
}
