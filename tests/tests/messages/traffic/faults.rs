//! Everything a bad cable does, alone and together, at rates far above any cable's.

use e810::Mtu;
use e810_hal::Ns;
use e810_sim::{Quality, Sim};
use e810_tests::traffic::wires::{
    OF_EACH, PERCENT, corrupting, delaying, duplicating, hurt, losing, reordering,
};
use e810_tests::traffic::{Pair, Setup, storm_setup};

/// One fault each, then all.
const WIRES: [(&str, Quality); 6] = [
    ("loss", losing(5 * PERCENT)),
    ("duplication", duplicating(20 * PERCENT)),
    ("reordering", reordering(5 * PERCENT)),
    ("corruption", corrupting(5 * PERCENT)),
    ("delay", delaying(Ns::from_us(30))),
    ("all of them", OF_EACH),
];

#[test]
fn every_message_arrives_once_whatever_the_wire_does() {
    for (name, quality) in WIRES {
        let (mut faults, mut frames) = (0, 0);
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
            faults += hurt(&sim);
            frames += sim.link().sent;
            sim.set_quality(Quality::PERFECT);
            pair.finish(&sim);
        }
        assert!(frames > 5_000, "{name}: {frames} frames");
        let is_bad = faults > frames / 50 || quality.jitter > Ns(0);
        assert!(is_bad, "{name}: {faults} of {frames} frames were hurt");
    }
}
