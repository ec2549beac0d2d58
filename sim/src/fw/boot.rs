//! Start-up after a reset of the card: when parts of the firmware and the RDMA engine become ready.

use e810_hal::regs as hw;

use crate::function::FunctionState;

use super::Cx;
use super::config::FirmwareConfig;

/// GL_MNG_FWSM.FW_LOADING.
const LOADING: u32 = 1 << 30;
/// GLNVM_ULD.PE_DONE.
const PE_DONE: u32 = 1 << 10;
/// GLPE_CPUSTATUS of an engine that is ready.
const ENGINE_READY: u32 = 0x80;
/// Shortest time by which the engine becomes ready after the rest of the card, and the range of the
/// random part added to it, in ns. Not in the sources; existing drivers poll every 10 ms.
const ENGINE_TIME: (u64, u64) = (200_000, 4_000_000);

/// Parts still to become ready, and when.
#[derive(Debug, Default)]
pub(super) struct Boot {
    loaded: Option<u64>,
    engine: Option<u64>,
}

fn set_bits(state: &mut FunctionState, off: e810_hal::RegOffset, bits: u32, on: bool) {
    let rest = state.registers.get(off) & !bits;
    state.registers.set(off, rest | if on { bits } else { 0 });
}

fn show_engine(state: &mut FunctionState, ready: bool) {
    set_bits(state, hw::GLNVM_ULD.off(), PE_DONE, ready);
    let status = if ready { ENGINE_READY } else { 0 };
    for off in [
        hw::GLPE_CPUSTATUS0.off(),
        hw::GLPE_CPUSTATUS1.off(),
        hw::GLPE_CPUSTATUS2.off(),
    ] {
        state.registers.set(off, status);
    }
}

impl Boot {
    /// Some parts of the firmware are loaded from elsewhere, which takes time (`ice/ice_main.c
    /// ice_wait_for_fw`).
    pub(super) fn start_loading(
        &mut self,
        config: &FirmwareConfig,
        now: u64,
        state: &mut FunctionState,
    ) {
        if config.loading_ms > 0 {
            self.loaded = Some(now + u64::from(config.loading_ms) * 1_000_000);
            set_bits(state, hw::GL_MNG_FWSM.off(), LOADING, true);
        }
    }

    /// The card is active again but its engine is not: PE_DONE is the last of the done bits.
    pub(super) fn start_engine(&mut self, now: u64, state: &mut FunctionState) {
        let time = ENGINE_TIME.0 + state.rng.below(ENGINE_TIME.1);
        self.engine = Some(now + time);
        show_engine(state, false);
    }

    /// A recorded card's own registers say whether its engine is ready.
    pub(super) fn engine_is_recorded(&mut self) {
        self.engine = None;
    }

    pub(super) fn next(&self) -> Option<u64> {
        [self.loaded, self.engine].into_iter().flatten().min()
    }
}

impl Cx<'_, '_> {
    /// Updates the registers for the parts that have become ready by now.
    pub(super) fn check_boot(&mut self) {
        let now = self.now();
        let boot = &mut self.fw.boot;
        if boot.loaded.take_if(|at| *at <= now).is_some() {
            set_bits(self.env.state, hw::GL_MNG_FWSM.off(), LOADING, false);
        }
        if boot.engine.take_if(|at| *at <= now).is_some() {
            show_engine(self.env.state, true);
        }
    }
}
