//! Nothing goes wrong.

use e810::hmc::Backing;
use e810::{Reached, Stage, bring_up};
use e810_sim::Profile;

use crate::bring_up::world::{BACKINGS, assert_as_found, builder, card, config};

const MIB: u64 = 1 << 20;

#[test]
fn a_device_is_as_it_was_found_and_can_be_brought_up_again() {
    for backing in BACKINGS {
        let (sim, nic) = card();
        let mut config = config(&nic);
        config.backing = backing;
        for _ in 0..3 {
            let mut reached = Vec::new();
            let mut observe = |at: Reached| reached.push(at);
            let device = bring_up(nic.clone(), &config, &mut observe).unwrap();
            let stages: Vec<Stage> = reached.iter().map(|at| at.stage).collect();
            assert_eq!(stages, Stage::WARM);
            assert!(reached.is_sorted_by_key(|at| at.commands));
            assert!(!sim.memory(0).nothing_held());
            device.shutdown().unwrap();
            assert_as_found(&sim);
        }
    }
}

#[test]
fn a_program_that_asks_for_little_gives_little() {
    for profile in [Profile::card(), Profile::small(), Profile::e810c()] {
        for (backing, most) in [(Backing::Full, 16 * MIB), (Backing::OnDemand, 4 * MIB)] {
            let sim = builder().profile(profile).build();
            let nic = sim.function(0);
            let mut config = config(&nic);
            config.backing = backing;
            let device = bring_up(nic, &config, &mut |_| {}).unwrap();
            let (control, events) = device.split();
            let backed = control.hmc().backed_bytes();
            assert!(backed <= most, "{profile:?} {backing:?}: {backed} bytes");
            assert!(sim.memory(0).dma_bytes >= backed);
            control.shutdown(events).unwrap();
            assert_as_found(&sim);
        }
    }
}
