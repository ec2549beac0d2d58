//! One message at a time.

use e810::Mtu;
use e810_tests::traffic::scenarios::scenarios;
use e810_tests::traffic::{Pair, Setup, Transfer};

use crate::traffic::exchange::{A, B, KINDS, MTUS, around, sim};

/// What the other backends run too.
#[test]
fn the_scenarios_of_every_backend() {
    for (seed, scenario) in (100..).zip(scenarios()) {
        let sim = sim(seed);
        let mut pair = Pair::simulated(&sim, scenario.setup);
        (scenario.run)(&mut pair);
        pair.finish(&sim);
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
