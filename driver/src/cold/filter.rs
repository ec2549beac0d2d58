//! The RDMA filter of the VSI (step 32).

use e810_adminq::op::UpdateVsi;
use e810_hal::{Platform, log_warn};

use super::LanReady;
use crate::error::Result;

impl<P: Platform> LanReady<P> {
    /// Switches the filter on, which leads RoCE frames of the VSI to the engine.
    /// Existing drivers do so after the engine is up, and switch it off before
    /// anything else of it ends (control-path 9.9).
    pub(crate) fn admit_rdma(&mut self) -> Result<()> {
        self.set_filter(true)
    }

    /// Switches it off. A refusal is only logged: the reset at the end takes the
    /// filter along.
    pub(crate) fn refuse_rdma(&mut self) {
        if self.filter
            && let Err(error) = self.set_filter(false)
        {
            log_warn!("the RDMA filter was not switched off: {}", error);
        }
    }

    fn set_filter(&mut self, on: bool) -> Result<()> {
        let stage = self.vsi_up_mut();
        let vsi = stage.vsi;
        let context = stage.context.with_rdma_filter(on);
        stage.queue().execute(&UpdateVsi { vsi, context })?;
        self.filter = on;
        Ok(())
    }
}
