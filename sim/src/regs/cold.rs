//! Values of a function after power-up, before any driver: its LAN side is not set up.
//!
//! Power-up values are not in the sources. That the RDMA engine's own firmware runs by itself, so that GLPE_CPUSTATUS says
//! ready whatever the LAN side does, is `[inf]` from a driver that waits for it without having asked for anything; the
//! filter in front of the engine is closed.

use e810_hal::{Off, regs};

use super::lan::place;
use super::warm::{self, Identity};
use crate::fw::{FirmwareConfig, SHADOW_RAM_LOG2_KB};

/// Guaranteed filters of flow director, and those that functions share.
const FD_GUARANTEED: u32 = 1024;
const FD_SHARED: u32 = 1024;

/// How a function begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// Its LAN side is up.
    Warm,
    /// As after power-up.
    Cold {
        /// PRTDCB_GENS.DCBX_STATUS.
        dcbx: u32,
        /// The firmware runs in recovery mode.
        recovery: bool,
    },
}

impl Start {
    pub(crate) fn cold(config: &FirmwareConfig) -> Self {
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
        }
    }

    /// Offset and value of each register that is not 0.
    pub(super) fn values(self, id: &Identity) -> Vec<(u32, u32)> {
        let Self::Cold { dcbx, recovery } = self else {
            return warm::values(id).collect();
        };
        let is_kept = |off: u32| {
            let off = Off::try_new(off);
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
            (place::PRTDCB_GENS.get(), dcbx),
            (place::GLQF_FD_SIZE.get(), FD_GUARANTEED | FD_SHARED << 16),
            (place::PFQF_FD_SIZE.get(), FD_GUARANTEED | FD_SHARED << 16),
        ]);
        if recovery {
            values.push((regs::GL_MNG_FWSM.off().get(), regs::FWSM_RECOVERY));
        }
        values
    }
}
