//! Register values of a cold function: after power-up, before any driver, and before the LAN side
//! is set up.
//!
//! Power-up values are not in the sources. The RDMA engine's own firmware starts by itself, so
//! GLPE_CPUSTATUS reports ready regardless of the LAN side; this is `[inf engine_status]` from a
//! driver that polls it without a preceding request. The filter in front of the engine is closed.

use e810_hal::{RegOffset, regs};

use super::lan::place;
use super::warm::{self, Identity};
use crate::fw::{FirmwareConfig, SHADOW_RAM_LOG2_KB};
use crate::variation::{AckThreshold, SwitchInput, Variation};

/// Guaranteed filters of flow director, and the shared ones.
const FD_GUARANTEED: u32 = 1024;
const FD_SHARED: u32 = 1024;

/// Both parts of the switch block's input mask, and their values when the block sees all 48 bits of
/// its input.
pub(crate) fn switch_input_open() -> [(u32, u32); 2] {
    const SWITCH: u32 = 0;
    const LOW: u32 = u32::MAX;
    const HIGH: u32 = 0xffff;
    let at = |start: RegOffset| start.get() + 4 * SWITCH;
    [
        (at(place::GL_PREEXT_L2_PMASK0), LOW),
        (at(place::GL_PREEXT_L2_PMASK1), HIGH),
    ]
}

/// Assigns each priority to the class of its number where that class is active, otherwise to class
/// 0; three bits each.
fn priorities(classes: u8) -> u32 {
    (0..8)
        .filter(|class| classes >> class & 1 != 0)
        .fold(0, |map, class| map | class << (3 * class))
}

/// The state in which a function begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// With its LAN side up.
    Warm,
    /// As after power-up.
    Cold {
        /// PRTDCB_GENS.DCBX_STATUS.
        dcbx: u32,
        /// The firmware runs in recovery mode.
        recovery: bool,
        /// The switch block sees its whole input.
        switch_input: bool,
        /// GL_RDPU_CNTRL.
        rdpu: u32,
        /// PRTDCB_TUP2TC.
        priorities: u32,
    },
}

impl Start {
    pub(crate) fn cold(config: &FirmwareConfig, variation: &Variation) -> Self {
        /// DCBX has not started, or is switched off (`ice/ice_dcb.h ICE_DCBX_STATUS_*`).
        const NOT_STARTED: u32 = 0;
        const DISABLED: u32 = 7;
        Self::Cold {
            dcbx: if config.lldp_agent {
                NOT_STARTED
            } else {
                DISABLED
            },
            recovery: config.recovery,
            priorities: priorities(config.classes),
            switch_input: variation.switch_input == SwitchInput::Open,
            rdpu: match variation.ack_threshold {
                AckThreshold::Zero => 0,
                AckThreshold::Three => 3 << 10,
            },
        }
    }

    /// Offset and value of each register that is not 0.
    pub(super) fn values(self, id: &Identity) -> Vec<(u32, u32)> {
        let Self::Cold {
            dcbx,
            recovery,
            switch_input,
            rdpu,
            priorities,
        } = self
        else {
            return warm::values(id).collect();
        };
        let is_kept = |off: u32| {
            let off = RegOffset::try_new(off);
            off.is_some_and(|off| {
                off != regs::GLINT_CTL.off()
                    && off != regs::PFQF_PE_FILTERING_ENA.off()
                    && regs::VSIQF_PE_CTL1.locate(off).is_none()
            })
        };
        let mut values: Vec<_> = warm::values(id).filter(|(off, _)| is_kept(*off)).collect();
        values.extend([
            (regs::GLNVM_GENS.off().get(), SHADOW_RAM_LOG2_KB << 5),
            // LOCKED: programmed as usual.
            (regs::GLNVM_FLA.off().get(), 1 << 6),
            (regs::GL_RDPU_CNTRL.off().get(), rdpu),
            (place::PRTDCB_GENS.get(), dcbx),
            (regs::PRTDCB_TUP2TC.off().get(), priorities),
            (place::GLQF_FD_SIZE.get(), FD_GUARANTEED | FD_SHARED << 16),
            (place::PFQF_FD_SIZE.get(), FD_GUARANTEED | FD_SHARED << 16),
            // All shared filters are taken: see `fw/vsi.rs`.
            (place::GLQF_FD_CNT.get(), FD_SHARED << 16),
        ]);
        if switch_input {
            values.extend(switch_input_open());
        }
        if recovery {
            values.push((regs::GL_MNG_FWSM.off().get(), regs::FWSM_RECOVERY));
        }
        values
    }
}
