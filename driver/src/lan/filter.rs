//! The RDMA filter of the VSI (control-path 9.3, step 32).

use e810_adminq::op::UpdateVsi;
use e810_hal::{Platform, log_warn};

use crate::error::Result;
use crate::lan::LanSide;

impl<P: Platform> LanSide<P> {
    /// Switches the filter on, which passes RoCE frames of the VSI to the engine. Existing
    /// drivers do so once the engine is up, and switch the filter off before they end anything
    /// else of the engine (control-path 9.9).
    pub(crate) fn admit_rdma(&mut self) -> Result<()> {
        self.set_filter(true)
    }

    /// Switches it off. A refusal is only logged: the reset at the end removes the filter too.
    pub(crate) fn refuse_rdma(&mut self) {
        if self.filter
            && let Err(error) = self.set_filter(false)
        {
            log_warn!("the RDMA filter was not switched off: {}", error);
        }
    }

    fn set_filter(&mut self, on: bool) -> Result<()> {
        let vsi = self.vsi.id;
        let context = self.vsi.context.with_rdma_filter(on);
        self.adminq.execute(&UpdateVsi { vsi, context })?;
        self.filter = on;
        Ok(())
    }
}
