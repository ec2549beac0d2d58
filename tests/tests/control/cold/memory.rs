//! The n-th request for memory of a cold start fails, for every n.

use e810::{Stage, StageError};
use e810_sim::Allocation;

use crate::cold::world::{assert_as_found, card, up};

/// Stages in which the n-th request failed; whatever it was, the function is left
/// as it was found, and can be brought up again.
fn stages(what: Allocation) -> Vec<Stage> {
    let (sim, nic) = card(|_| {});
    let mut stages = Vec::new();
    for nth in 1.. {
        sim.fail_allocation(0, what, nth);
        let result = up(nic.clone(), &mut |_| {});
        let failed = match result {
            Err(StageError { stage, undo, error }) => {
                assert_eq!(undo, None, "request {nth}, {error}");
                stages.push(stage);
                true
            }
            Ok(device) => {
                device.shutdown().unwrap();
                false
            }
        };
        sim.fail_allocation(0, what, 0);
        assert_as_found(&sim);
        if !failed {
            return stages;
        }
    }
    stages
}

#[test]
fn every_stage_undoes_what_was_before_it() {
    let of = |stages: &[Stage], stage| stages.iter().filter(|s| **s == stage).count();
    let host = stages(Allocation::Host);
    // The scheduler's tree, and the LAN side beside the engine.
    assert_eq!(host[0], Stage::Tree);
    assert_eq!(of(&host, Stage::EngineReady), 1);
    assert!(host.is_sorted_by_key(|stage| *stage as u8), "{host:?}");
    let dma = stages(Allocation::Dma);
    assert_eq!(dma[0], Stage::Adminq);
    assert!(dma.is_sorted_by_key(|stage| *stage as u8), "{dma:?}");
}
