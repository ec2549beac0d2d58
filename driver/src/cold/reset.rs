//! A function as a reset leaves it (steps 2 to 4).

use e810_adminq::reset::{check_recovery, reset_function};
use e810_hal::Platform;
use e810_hal::bus::PfId;

use super::Cold;
use crate::device::{Device, Failed, function_number};
use crate::error::Result;

/// The function was reset: nothing of an earlier driver is left in it.
#[derive(Debug)]
pub struct FunctionReset {
    pub(super) pf: PfId,
}

impl<P: Platform> Device<P, Cold> {
    /// Resets the function, or waits for a reset of the whole card that is
    /// running (steps 2 to 4).
    ///
    /// RDMA needs it because CQP, segments and queues of an earlier driver
    /// would otherwise still reach for memory that is no longer theirs.
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
    // Whether the function has RDMA is asked of the firmware later; until then
    // the engine's unit is not waited for.
    reset_function(platform, false)?;
    Ok(pf)
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
