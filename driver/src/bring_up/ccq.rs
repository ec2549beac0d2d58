//! The CQP's completion queue (control-path 3.1, step 15).

use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::limits::CCQ_ID;
use e810_cqp::{CcqConfig, Cqp};
use e810_hal::{HostBox, Platform};

use super::{Device, Failed, HmcUp};
use crate::control::{CEQ_0, Memory, undo_ccq};
use crate::error::Result;

/// Commands end on the CCQ.
#[derive(Debug)]
pub struct CcqUp<P: Platform> {
    pub(super) cqp: Cqp<P>,
    pub(super) hmc: HostBox<P, Memory<P>>,
}

impl<P: Platform> Device<P, HmcUp<P>> {
    /// Creates the CQP's completion queue (control-path 3.1, step 15).
    ///
    /// # Errors
    /// No memory, a failed command.
    #[inline(never)]
    pub fn create_ccq(mut self) -> Result<Device<P, CcqUp<P>>, Failed<P, HmcUp<P>>> {
        let config = CcqConfig {
            ceq: CEQ_0,
            vsi: self.config.lan.vsi,
            // A CEQE with context 0 is the CCQ's (control-path 7.1).
            context: 0,
        };
        let HmcUp { cqp, hmc } = &mut self.stage;
        // The CCQ is CQ 0, an object like any other.
        let attached = hmc
            .hmc
            .ensure(cqp, HmcObject::Cq, CCQ_ID)
            .and_then(|()| cqp.attach_ccq(config));
        match attached {
            Ok(()) => Ok(self.map(|HmcUp { cqp, hmc }| CcqUp { cqp, hmc })),
            Err(error) => Err((self, error.into())),
        }
    }
}

impl<P: Platform> Device<P, CcqUp<P>> {
    /// Undoes everything in order. After a refusal the host memory cache and the CQP are taken
    /// down all the same, as in existing drivers.
    ///
    /// # Errors
    /// The first step that failed; what the device may still use is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        let (CcqUp { cqp, hmc }, rest) = self.take();
        rest.end(undo_ccq(cqp, hmc))
    }
}
