//! One message at a time.

use e810::{Mtu, QpCaps};
use e810_tests::traffic::{Kind, Pair, Setup, Transfer};

use crate::exchange::{A, B, KINDS, MTUS, around, sim};

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
