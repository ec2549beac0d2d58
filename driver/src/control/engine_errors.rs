//! Error details of the engine, read from its registers.

use e810_adminq::oicr::{Causes, Details};
use e810_hal::Platform;

use super::Control;
use crate::error::Result;

impl<P: Platform> Control<P> {
    /// What the engine's registers say about the causes that
    /// [`Event::OtherCause`](crate::Event::OtherCause) reported; prints as a line, for a log
    /// before the reset that the causes require.
    ///
    /// Where another driver has the LAN side, that driver takes the causes; the registers can
    /// still be read here.
    ///
    /// # Errors
    /// The device is gone.
    pub fn error_details(&self, causes: Causes) -> Result<Details> {
        Ok(Details::read(&self.platform, causes)?)
    }
}
