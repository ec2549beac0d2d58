//! The control QP (control-path 3.1, steps 7 to 9).

use e810_cqp::{Config as CqpConfig, Cqp};
use e810_hal::Platform;

use super::{Device, EngineReady, Failed};
use crate::error::{Error, Result};

/// The CQP exists; registers report the end of commands.
#[derive(Debug)]
pub struct CqpUp<P: Platform> {
    pub(super) cqp: Cqp<P>,
}

impl<P: Platform> Device<P, EngineReady> {
    /// Creates the control QP (control-path 3.1, steps 7 to 9).
    ///
    /// # Errors
    /// No memory, the device's refusal, or its silence.
    #[inline(never)]
    pub fn create_cqp(self) -> Result<Device<P, CqpUp<P>>, Failed<P, EngineReady>> {
        let config = CqpConfig {
            entries: self.config.cqp_entries,
            function: self.stage.pf,
            congestion: self.config.congestion,
        };
        match Cqp::create(self.platform.clone(), config) {
            Ok(cqp) => Ok(self.map(|_| CqpUp { cqp })),
            Err(error) => Err((self, error.into())),
        }
    }
}

impl<P: Platform> Device<P, CqpUp<P>> {
    /// Destroys the control QP; the device is as it was found.
    ///
    /// # Errors
    /// The device did not release it: its memory is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        let (stage, rest) = self.take();
        rest.end(stage.cqp.destroy().map_err(Error::from))
    }
}
