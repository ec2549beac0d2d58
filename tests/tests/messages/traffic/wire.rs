//! A bad wire, and runs that repeat.

use std::sync::{Arc, Mutex};

use e810::Vlan;
use e810_hal::Ns;
use e810_sim::{Quality, Rate, Sim};
use e810_tests::traffic::wires::{PERCENT, duplicating, hurt, losing, reordering};
use e810_tests::traffic::{Kind, Pair, Report, Setup, Transfer};

use crate::traffic::exchange::{A, B, KINDS, around, many, sim};

#[test]
fn a_bad_wire_loses_nothing() {
    for (seed, quality) in (30..).zip([
        losing(3 * PERCENT),
        duplicating(10 * PERCENT),
        reordering(5 * PERCENT),
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
        assert!(hurt(&sim) > 5, "the wire was not bad: {:?}", sim.link());
        pair.finish(&sim);
    }
}

/// A stream takes as long as its frames do at the rate of the port, and frames that are queued
/// there are not taken for lost.
#[test]
fn a_stream_is_as_fast_as_the_port() {
    for (seed, bits) in [(40, 1_000_000_000), (41, 25_000_000_000)] {
        let quality = Quality {
            rate: Rate::new(bits),
            latency: Ns(0),
            ..Quality::PERFECT
        };
        let sim = Sim::builder()
            .functions(2)
            .seed(seed)
            .quality(quality)
            .build();
        let mut pair = Pair::simulated(&sim, Setup::default());
        let taken = Arc::new(Mutex::new((0, 0)));
        let sum = Arc::clone(&taken);
        sim.set_capture(Some(Box::new(move |frame| {
            let (frames, bits) = &mut *sum.lock().unwrap();
            if frame.from == Some(0) {
                *frames += 1;
                *bits += (frame.bytes.len() as u64 + 24) * 8;
            }
        })));
        let start = sim.now();
        pair.transfer(A, &Transfer::new(Kind::Write, 200_000));
        let elapsed = (sim.now() - start).0;
        let (frames, sent) = *taken.lock().unwrap();
        assert_eq!(frames, 200_000_u64.div_ceil(1024), "none was sent again");
        let busy = sent * 1_000_000_000 / bits;
        assert!(elapsed >= busy, "{elapsed} < {busy}");
        // At 25 Gbit/s the engine, whose steps take up to 220 ns, is not much faster than that.
        assert!(elapsed < busy + busy / 4, "{elapsed}, {busy}");
        sim.set_capture(None);
        pair.finish(&sim);
    }
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

/// Every frame of a tagged path has its tag, and no other has one.
#[test]
fn a_tag_is_on_the_wire() {
    for (seed, vlan) in (70..).zip([
        None,
        Some(Vlan { id: 1, priority: 0 }),
        Some(Vlan {
            id: 0xABC,
            priority: 5,
        }),
    ]) {
        let sim = sim(seed);
        let frames = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&frames);
        sim.set_capture(Some(Box::new(move |frame| {
            seen.lock().unwrap().push(frame.bytes[12..16].to_vec());
        })));
        let setup = Setup {
            vlan,
            ..Setup::default()
        };
        let mut pair = Pair::simulated(&sim, setup);
        around(1024, &mut pair, [A, B]);
        pair.finish(&sim);
        let frames = frames.lock().unwrap();
        assert!(frames.len() > 20);
        for header in frames.iter() {
            match vlan {
                None => assert_eq!(header[..2], [8, 0], "IPv4"),
                Some(Vlan { id, priority }) => {
                    let tag = (u16::from(priority) << 13 | id).to_be_bytes();
                    assert_eq!(header[..], [[0x81, 0], tag].concat());
                }
            }
        }
    }
}
