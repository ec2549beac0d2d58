//! A function as a reset leaves it (control-path 9.3, steps 2 to 4).

use e810_adminq::reset::{
    self as adminq_reset, GlobalReset, check_recovery, global_reset_running, reset_function,
    wait_for_card, wait_for_firmware,
};
use e810_hal::Platform;
use e810_hal::bus::PfId;

use super::Cold;
use crate::bring_up::{Device, Failed, function_number};
use crate::error::Result;

/// The function was reset: nothing of an earlier driver is left in it.
#[derive(Debug)]
pub struct FunctionReset {
    pub(super) pf: PfId,
}

impl<P: Platform> Device<P, Cold> {
    /// Resets the function, or waits for a reset of the whole card that is
    /// running (control-path 9.3, steps 2 to 4).
    ///
    /// RDMA needs this because CQP, segments and queues of an earlier driver would otherwise
    /// still access memory that is no longer theirs.
    ///
    /// # Errors
    /// Firmware in recovery mode, a reset that does not end, a device that is
    /// gone.
    #[inline(never)]
    pub fn reset(self) -> Result<Device<P, FunctionReset>, Failed<P, Cold>> {
        match reset(&self.platform) {
            Ok(pf) => Ok(self.map(|Cold(())| FunctionReset { pf })),
            Err(error) => Err((self, error)),
        }
    }
}

fn reset<P: Platform>(platform: &P) -> Result<PfId> {
    check_recovery(platform)?;
    let pf = function_number(platform)?;
    // The firmware is asked later whether the function has RDMA; until then nothing waits for the
    // engine's unit.
    reset_function(platform, false)?;
    Ok(pf)
}

/// Resets the core of the whole card, or waits for a reset of it that is running; afterwards the
/// card is ready for a normal cold start.
///
/// All functions of the card are reset with it, including those in use, and the DDP package is
/// gone: this is for a card whose configuration was spoiled, where nothing smaller helps
/// (field-evidence 3.4 to 3.7). No start does it by itself. The caller makes sure that nobody
/// uses the other functions.
///
/// # Errors
/// Firmware in recovery mode, a reset that does not end, a device that is gone.
/// All waits are bounded: (GRSTDEL + 11) × 100 ms, 5 s, and 30 s for the
/// firmware.
pub fn reset_card<P: Platform>(platform: &P) -> Result<()> {
    check_recovery(platform)?;
    function_number(platform)?;
    if global_reset_running(platform)? {
        wait_for_card(platform, false)?;
    } else {
        adminq_reset::reset_card(platform, GlobalReset::Core, false)?;
    }
    Ok(wait_for_firmware(platform)?)
}

impl<P: Platform> Device<P, FunctionReset> {
    /// Nothing to undo.
    ///
    /// # Errors
    /// None.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        Ok(())
    }
}
