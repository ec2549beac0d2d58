//! Handles, functions and modes of a simulator.

use super::*;

use crate::link::Mac;
use crate::rng::Rng;

use e810_hal::regs::{DYN_CTL_ENABLE, GLINT_DYN_CTL, GLPE_CPUSTATUS0, PF_FUNC_RID, PFGEN_CTRL};
use e810_hal::{Bus, Clock, DmaAlloc, DmaLayout, RegOffset};

use crate::middleware::{Layered, Trace};

#[test]
fn functions_differ_in_identity_only() {
    let sim = Sim::builder().functions(8).build();
    let macs: Vec<Mac> = (0..8)
        .map(|pf| {
            let nic = sim.function(pf);
            assert_eq!(PF_FUNC_RID.get(&nic) & 7, u32::from(pf));
            assert_ne!(nic.vsi(), u16::from(pf));
            nic.mac()
        })
        .collect();
    assert!(macs.iter().all(|mac| mac[0] & 3 == 2), "local, not a group");
    assert!((1..8).all(|pf| macs[pf] != macs[0]));
    assert_eq!(sim.functions(), 8);
    assert_eq!(Sim::builder().functions(0).build().functions(), 1);
    assert_eq!(Sim::builder().functions(99).build().functions(), 8);
}

#[test]
#[should_panic(expected = "function 1 of a world with 1")]
fn there_is_no_platform_without_a_function() {
    let _ = Sim::builder().build().function(1);
}

#[test]
fn traffic_is_counted() {
    let sim = Sim::builder().functions(2).build();
    let nic = sim.function(1);
    GLPE_CPUSTATUS0.get(&nic);
    e810_hal::regs::PFPE_CQARM.set(&nic, 0);
    let stats = sim.stats(1);
    assert_eq!(
        (stats.register_reads, stats.register_writes, stats.doorbells),
        (1, 1, 1)
    );
    assert_eq!(sim.stats(0), Stats::default());
    sim.clear_stats(1);
    assert_eq!(sim.stats(1), Stats::default());
}

/// Reads and writes of all kinds, with waits and resets, from a generator with a fixed seed.
fn busy(seed: u64) -> (Vec<String>, Ns, Vec<Finding>) {
    let sim = Sim::builder().functions(2).seed(seed).build();
    let trace = Trace::new();
    let nics = [0, 1].map(|pf| Layered::new(sim.function(pf), trace.clone()));
    let mut rng = Rng::new(99);
    for _ in 0..if cfg!(miri) { 60 } else { 600 } {
        let nic = &nics[rng.below(2) as usize];
        match rng.below(8) {
            0 => nic.delay(Ns(rng.below(100_000))),
            1 => nic.relax(),
            2 => PFGEN_CTRL.set(nic, 1),
            3 => {
                PFGEN_CTRL.get(nic);
            }
            4 => {
                let raw = nic.dma_alloc(DmaLayout::new(64, 512)).unwrap();
                nic.write32(
                    e810_hal::regs::PFPE_CCQPHIGH.off(),
                    (raw.iova.0 >> 32) as u32,
                );
                nic.write32(e810_hal::regs::PFPE_CCQPLOW.off(), raw.iova.0 as u32);
            }
            5 => nic.write32(RegOffset::new(0x50_0800), rng.below(4) as u32),
            6 => {
                let vector = Vector::new(rng.below(9) as u16).unwrap();
                GLINT_DYN_CTL.at(vector).set(nic, DYN_CTL_ENABLE | 4);
            }
            _ => {
                nic.read32(e810_hal::regs::PFPE_CCQPSTATUS.off());
            }
        }
    }
    (trace.take(), sim.now(), sim.findings())
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(busy(1), busy(1));
    assert_ne!(busy(1), busy(2), "the seed decides something");
}
