//! Functions that are not ready, and functions with little.

use e810::{Error, Stage, bring_up};
use e810_hal::regs::{
    GLPCI_LBARCTRL, GLPE_CPUSTATUS0, GLPE_CPUSTATUS1, GLPE_CPUSTATUS2, PF_FUNC_RID,
};
use e810_hal::{InterruptVectors, Ns, RegOffset, WaitError};
use e810_sim::middleware::{Inject, Rule};

use crate::bring_up::world::{
    assert_as_found, assert_explains, card, config, layered, up_and_down, wait_of,
};

/// Brings up with one register reading as `value`.
fn with_register(off: RegOffset, value: u32) -> (e810::StageError, Ns) {
    let inject = Inject::with(Rule::Reads { off, value });
    let (sim, nic) = layered(&inject);
    let below = nic.platform().clone();
    let error = bring_up(nic.clone(), &config(&below), &mut |_| {}).unwrap_err();
    let took = sim.now();
    assert_as_found(&sim);
    assert_eq!(sim.memory(0).dma_requests, 0, "nothing was begun");
    assert_explains(&error);
    inject.clear();
    up_and_down(nic, &config(&below)).expect("good again");
    assert_as_found(&sim);
    (error, took)
}

#[test]
fn an_engine_that_does_not_start_is_waited_for_and_reported() {
    let processors = [
        GLPE_CPUSTATUS0.off(),
        GLPE_CPUSTATUS1.off(),
        GLPE_CPUSTATUS2.off(),
    ];
    for off in processors {
        let (error, took) = with_register(off, 0x40);
        assert_eq!((error.stage, error.undo), (Stage::EngineReady, None));
        let Some(WaitError::Timeout { label, limit }) = wait_of(&error.error) else {
            panic!("{error:?}");
        };
        assert!(label.contains("GLPE_CPUSTATUS"), "{label}");
        assert!(
            took >= limit && took <= limit + Ns::from_ms(1_000),
            "{took}"
        );
        let (error, took) = with_register(off, u32::MAX);
        let gone = wait_of(&error.error);
        assert!(
            matches!(gone, Some(WaitError::DeviceGone { .. })),
            "{gone:?}"
        );
        assert!(took < Ns::from_ms(1), "{took}");
    }
}

#[test]
fn a_function_without_doorbells_is_reported_as_such() {
    for size in [0, 3] {
        let value = size << 4;
        let (error, _) = with_register(GLPCI_LBARCTRL.off(), value);
        assert_eq!(error.stage, Stage::EngineReady);
        assert_eq!(error.error, Error::NoDoorbells { size });
        assert!(error.to_string().contains("PE_DB_SIZE"), "{error}");
    }
    for off in [GLPCI_LBARCTRL.off(), PF_FUNC_RID.off()] {
        let (error, _) = with_register(off, u32::MAX);
        let gone = wait_of(&error.error);
        assert!(
            matches!(gone, Some(WaitError::DeviceGone { .. })),
            "{gone:?}"
        );
    }
}

#[test]
fn without_a_vector_there_is_no_device() {
    let (sim, nic) = card();
    let taken: Vec<_> = std::iter::from_fn(|| nic.vector_alloc()).collect();
    let error = bring_up(nic.clone(), &config(&nic), &mut |_| {}).unwrap_err();
    assert_eq!(error.stage, Stage::Ceqs);
    assert_eq!(error.error, Error::Ceq(e810_ceq::Error::NoVectors));
    assert_eq!(error.undo, None);
    assert!(sim.memory(0).nothing_held());
    for vector in taken {
        nic.vector_free(vector);
    }
    assert_as_found(&sim);
    up_and_down(nic, &config(&sim.function(0))).expect("good again");
}
