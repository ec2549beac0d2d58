//! The host memory cache (control-path 3.1, steps 10 to 13).

use e810_cqp::Cqp;
use e810_hal::{HostBox, Platform};

use super::{CqpUp, Device, Failed};
use crate::control::{Memory, undo_hmc};
use crate::error::Result;

/// The host memory cache is backed.
#[derive(Debug)]
pub struct HmcUp<P: Platform> {
    pub(super) cqp: Cqp<P>,
    pub(super) hmc: HostBox<P, Memory<P>>,
}

impl<P: Platform> Device<P, CqpUp<P>> {
    /// Plans, commits and backs the host memory cache (control-path 3.1, steps 10 to 13).
    ///
    /// # Errors
    /// A capacity the device does not have, no memory, a failed command.
    #[inline(never)]
    pub fn create_hmc(mut self) -> Result<Device<P, HmcUp<P>>, Failed<P, CqpUp<P>>> {
        match Memory::create(self.platform.clone(), &mut self.stage.cqp, &self.config) {
            Ok(hmc) => Ok(self.map(|CqpUp { cqp }| HmcUp { cqp, hmc })),
            Err(error) => Err((self, error)),
        }
    }
}

impl<P: Platform> Device<P, HmcUp<P>> {
    /// The host memory cache: what was planned and what is backed.
    #[must_use]
    pub fn hmc(&self) -> &Memory<P> {
        &self.stage.hmc
    }

    /// Undoes everything in order. After a refusal the CQP is destroyed all the
    /// same, as existing drivers do.
    ///
    /// # Errors
    /// The first step that failed; what the device may still use is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        let (HmcUp { cqp, hmc }, rest) = self.take();
        rest.end(undo_hmc(cqp, hmc))
    }
}
