//! The AdminQ (control-path 9.3, steps 6, 7, 9).

use e810_adminq::AdminQ;
use e810_adminq::op::{ClearPf, ClearPxe, Version};
use e810_hal::Platform;
use e810_hal::bus::PfId;

use super::FunctionReset;
use crate::bring_up::{Device, Failed};
use crate::error::Result;
use crate::lan::end_adminq;

/// The firmware answers.
#[derive(Debug)]
pub struct AdminqUp<P: Platform> {
    pub(super) pf: PfId,
    pub(super) adminq: AdminQ<P>,
}

impl<P: Platform> Device<P, FunctionReset> {
    /// Starts the AdminQ, clears what an earlier driver left in the switch, and ends the state in
    /// which the function boots a machine (control-path 9.3, steps 6, 7, 9).
    ///
    /// Everything else is asked of the firmware through this queue; in PXE mode the function
    /// belongs to the boot ROM `[inf pxe_boot_rom]`. A card that was used has left that mode and
    /// may say so (EEXIST, field-evidence 3.1): existing drivers ignore the answer.
    ///
    /// # Errors
    /// No memory; a firmware that does not answer, refuses, or speaks a newer
    /// interface.
    #[inline(never)]
    pub fn start_adminq(self) -> Result<Device<P, AdminqUp<P>>, Failed<P, FunctionReset>> {
        let mut adminq = match AdminQ::start(self.platform.clone()) {
            Ok(adminq) => adminq,
            Err(error) => return Err((self, error.into())),
        };
        let cleared = adminq
            .execute(&ClearPf)
            .and_then(|()| adminq.attempt(&ClearPxe));
        match cleared {
            Ok(_) => Ok(self.map(|FunctionReset { pf }| AdminqUp { pf, adminq })),
            Err(error) => {
                // The first error says more than one that undoing may add.
                let _ = adminq.shutdown();
                Err((self, error.into()))
            }
        }
    }
}

impl<P: Platform> Device<P, AdminqUp<P>> {
    /// The firmware's version.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.stage.adminq.version()
    }

    /// Ends the AdminQ, then resets the function, so that nothing of this driver is left in it.
    /// Resets even if ending the queue failed.
    ///
    /// # Errors
    /// The first step that failed; what the firmware may still use is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        end_adminq(self.stage.adminq, &self.platform)
    }
}
