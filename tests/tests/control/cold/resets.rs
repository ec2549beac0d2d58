//! The card, or the function, reset by somebody else at every point.

use e810::{Reached, Stage};
use e810_hal::Ns;
use e810_hal::regs::{GLGEN_RTRIG, PFGEN_CTRL};
use e810_sim::findings::kind;
use e810_sim::{AqFault, ResetSource, Sim, SimPlatform};

use crate::cold::faults::{assert_comes_up, everywhere};
use crate::cold::world::{assert_vectors_back, card, up};

const RESETS: [ResetSource; 4] = [
    ResetSource::Pfr,
    ResetSource::Corer,
    ResetSource::Globr,
    ResetSource::Empr,
];

/// Memory that was given to the device was not taken from it while it could
/// still be used.
fn assert_no_memory_was_taken_early(sim: &Sim, what: &str) {
    const OF_MEMORY: [&str; 4] = [
        kind::DMA_FREED.name,
        kind::DMA_UNMAPPED.name,
        kind::DMA_BOUNDS.name,
        kind::USE_AFTER_FREE.name,
    ];
    let findings = sim.findings();
    let early = findings.iter().find(|f| OF_MEMORY.contains(&f.kind));
    assert_eq!(early, None, "{what}");
}

#[test]
fn at_every_command() {
    for reset in RESETS {
        everywhere(AqFault::Reset(reset), |opcode, nth, outcome| {
            let what = format!("{opcode:#06x} use {nth}: {reset:?}");
            let held = outcome.sim.memory(0);
            assert_eq!((held.host_blocks, held.mappings), (0, 0), "{what}");
            assert_vectors_back(&outcome.nic);
            assert_no_memory_was_taken_early(&outcome.sim, &what);
            assert_comes_up(&outcome, &what);
            assert_no_memory_was_taken_early(&outcome.sim, &what);
        });
    }
}

fn reset(nic: &SimPlatform, source: ResetSource) {
    match source {
        ResetSource::Pfr => PFGEN_CTRL.write(nic, PFGEN_CTRL::PFSWR::SET),
        ResetSource::Corer => GLGEN_RTRIG.write(nic, GLGEN_RTRIG::CORER::SET),
        _ => GLGEN_RTRIG.write(nic, GLGEN_RTRIG::GLOBR::SET),
    }
}

#[test]
fn after_every_stage() {
    for source in [ResetSource::Pfr, ResetSource::Corer, ResetSource::Globr] {
        for stage in Stage::COLD {
            let what = format!("{source:?} after {stage:?}");
            let (sim, nic) = card(|_| {});
            let hit = nic.clone();
            let result = up(nic.clone(), &mut |at: Reached| {
                if at.stage == stage {
                    reset(&hit, source);
                    hit_run(&hit);
                }
            });
            if let Ok(device) = result {
                // It may fail: what it took down is gone already.
                let _ = device.shutdown();
            }
            assert_vectors_back(&nic);
            assert_no_memory_was_taken_early(&sim, &what);
            // What the driver tells a device that forgot it is not held
            // against it: it does not know yet.
            let _ = sim.take_findings();
            let device = up(nic, &mut |_| {}).unwrap_or_else(|e| panic!("{what}: {e}"));
            device.shutdown().unwrap();
            assert_eq!(sim.findings(), [], "{what}");
        }
    }
}

/// Lets the reset happen.
fn hit_run(nic: &SimPlatform) {
    use e810_hal::Clock;
    nic.delay(Ns::from_ms(1));
}
