//! Everything a bad cable does, alone and together, at rates far above any cable's.

use e810::Mtu;
use e810_hal::Ns;
use e810_sim::{Quality, Sim};
use e810_tests::traffic::{Pair, Setup, storm_setup};

const PERCENT: u32 = 10_000;

/// One fault each, then all.
const WIRES: [(&str, Quality); 6] = [
    (
        "loss",
        Quality {
            loss: 5 * PERCENT,
            ..Quality::PERFECT
        },
    ),
    (
        "duplication",
        Quality {
            duplicate: 20 * PERCENT,
            ..Quality::PERFECT
        },
    ),
    (
        "reordering",
        Quality {
            reorder: 5 * PERCENT,
            ..Quality::PERFECT
        },
    ),
    (
        "corruption",
        Quality {
            corrupt: 5 * PERCENT,
            ..Quality::PERFECT
        },
    ),
    (
        "delay",
        Quality {
            jitter: Ns::from_us(30),
            ..Quality::PERFECT
        },
    ),
    (
        "all of them",
        Quality {
            loss: 3 * PERCENT,
            duplicate: 3 * PERCENT,
            reorder: 3 * PERCENT,
            corrupt: 3 * PERCENT,
            jitter: Ns::from_us(5),
            ..Quality::PERFECT
        },
    ),
];

#[test]
fn every_message_arrives_once_whatever_the_wire_does() {
    for (name, quality) in WIRES {
        let (mut hurt, mut frames) = (0, 0);
        for seed in 0..12 {
            let sim = Sim::builder().functions(2).seed(seed).build();
            let setup = Setup {
                mtu: [Mtu::Mtu256, Mtu::Mtu1024, Mtu::Mtu4096][seed as usize % 3],
                ipv6: seed % 2 == 1,
                ..storm_setup()
            };
            let mut pair = Pair::simulated(&sim, setup);
            sim.set_quality(quality);
            pair.storm(6, seed);
            let link = sim.link();
            hurt += link.lost + link.duplicated + link.reordered + link.corrupted;
            frames += link.sent;
            sim.set_quality(Quality::PERFECT);
            pair.finish(&sim);
        }
        assert!(frames > 5_000, "{name}: {frames} frames");
        let is_bad = hurt > frames / 50 || quality.jitter > Ns(0);
        assert!(is_bad, "{name}: {hurt} of {frames} frames were hurt");
    }
}
