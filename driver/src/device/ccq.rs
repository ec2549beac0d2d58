//! The CQP's completion queue (step 15).

use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::limits::CCQ_ID;
use e810_cqp::{CcqConfig, Error as CqpError};
use e810_hal::{CeqId, Platform};

use super::{Device, Failed, HmcUp};
use crate::error::{Error, Result};

/// Commands end on the CCQ.
#[derive(Debug)]
pub struct CcqUp<P: Platform> {
    pub(super) below: HmcUp<P>,
}

/// The CEQ of the CCQ.
pub(crate) const CEQ_0: CeqId = CeqId::ZERO;

impl<P: Platform> Device<P, HmcUp<P>> {
    /// Creates the CQP's completion queue (step 15).
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
            Ok(()) => Ok(self.map(|below| CcqUp { below })),
            Err(error) => Err((self, error.into())),
        }
    }
}

impl<P: Platform> Device<P, CcqUp<P>> {
    /// Undoes everything in order. After a refusal the host memory cache and the
    /// CQP are taken down all the same, as existing drivers do.
    ///
    /// # Errors
    /// The first step that failed; what the device may still use is leaked.
    #[inline(never)]
    pub fn shutdown(mut self) -> Result<()> {
        let cqp = &mut self.stage.below.cqp;
        let detached = match cqp.detach_ccq() {
            Err(error @ CqpError::Cqp { .. }) if cqp.part_from_ccq().is_ok() => Err(error),
            // A command that did not end, or a device that is gone.
            Err(error) => {
                let (_, rest) = self.take();
                return rest.end(Err(error.into()));
            }
            Ok(()) => Ok(()),
        };
        let below = self.map(|CcqUp { below }| below).shutdown();
        detached.map_err(Error::from).and(below)
    }
}
