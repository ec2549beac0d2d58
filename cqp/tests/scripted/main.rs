//! The CQP and the HMC against a scripted device.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that panics fails, as it should"
)]

mod commands;
mod fake;
// Miri checks each borrow of 2 MiB of atomic words one by one.
#[cfg(not(miri))]
mod hmc;

use e810_cqp::CcqConfig;
use e810_hal::bus::{CeqId, VsiId};

fn ccq_config() -> CcqConfig {
    CcqConfig {
        ceq: CeqId::new(0).unwrap(),
        vsi: VsiId::new(21).unwrap(),
        context: 0x123,
    }
}
