//! Error details of the engine, read from its registers.

use e810_adminq::oicr::{Causes, Details};
use e810_hal::Platform;

use super::Control;
use crate::error::Result;

impl<P: Platform> Control<P> {
    /// What the engine's registers say of causes that
    /// [`Event::OtherCause`](crate::Event::OtherCause) told; prints as a line, for
    /// a log before the reset that the causes ask for.
    ///
    /// Where another driver has the LAN side, the causes are that driver's to take;
    /// the registers can be read here all the same.
    ///
    /// # Errors
    /// The device is gone.
    pub fn error_details(&self, causes: Causes) -> Result<Details> {
        Ok(Details::read(&self.platform, causes)?)
    }
}
