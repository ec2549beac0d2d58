//! A shutdown after commands that failed: CQP_OP_ERR that stays, and a CCQ that is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use e810::{Config, bring_up};
use e810_hal::regs::PFPE_CQPTAIL;
use e810_hal::{Bus, RegOffset};
use e810_sim::middleware::Layer;
use e810_sim::pe::CqpErrors;

use crate::bring_up::world::{assert_as_found, card, config, lan, layered};

/// DESTROY_CQ.
const DESTROY_CQ: u8 = 0x05;

/// CQP_OP_ERR once set.
#[derive(Clone, Default)]
struct Sticky(Arc<AtomicBool>);

impl Layer for Sticky {
    fn read32(&self, below: &impl Bus, off: RegOffset) -> u32 {
        let value = below.read32(off);
        if off == PFPE_CQPTAIL.off() && self.0.load(Ordering::Relaxed) {
            return value | 1 << 31;
        }
        value
    }
}

/// One command failed on the CCQ (a flush with nothing to flush, say), and no good one clears the
/// bit: every byte comes back, in order and without an error.
#[test]
fn an_error_bit_that_stays() {
    let sticky = Sticky::default();
    let (sim, nic) = layered(&sticky);
    let below = nic.platform().clone();
    let device = bring_up(nic, &Config::new(lan(&below)), &mut |_| {}).unwrap();
    sticky.0.store(true, Ordering::Relaxed);
    device.shutdown().unwrap();
    let held = sim.memory(0);
    assert_eq!((held.dma_blocks, held.host_blocks), (0, 0), "{held:?}");
    assert_as_found(&sim);
}

/// The refusal is reported; the host memory cache and the CQP are taken down all the same.
#[test]
fn a_ccq_that_is_refused_does_not_keep_the_rest() {
    let (sim, nic) = card();
    let device = bring_up(nic.clone(), &config(&nic), &mut |_| {}).unwrap();
    sim.configure_engine(0, |config| {
        config.cqp_errors = CqpErrors::Opcode(DESTROY_CQ);
    });
    let error = device.shutdown().unwrap_err().to_string();
    assert!(error.contains("DESTROY_CQ"), "{error}");
    let held = sim.memory(0);
    assert_eq!((held.dma_blocks, held.host_blocks), (0, 0), "{held:?}");
    // Not even a further start needs a reset.
    sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::None);
    let device = bring_up(nic.clone(), &config(&nic), &mut |_| {}).unwrap();
    device.shutdown().unwrap();
}
