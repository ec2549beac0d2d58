//! Interrupts of a platform, for a thread that polls them or waits for them itself.

use anyhow::Result;
use e810::Platform;
use e810_hal::{Ns, Vector};

use crate::buffer::Payload;
use crate::counted::Counted;
use crate::{Function, Transport};

/// A platform whose interrupts a thread can take, or wait for.
pub trait Interrupts {
    /// Appends the vectors that fired to `fired`; if none has, waits at most `limit` for one.
    ///
    /// # Errors
    /// The host cannot wait.
    fn wait_fired(&self, limit: Ns, fired: &mut Vec<Vector>) -> Result<()>;
}

/// The platform that commands run on, with payload memory and interrupts.
pub trait HostPlatform: Platform + Payload + Interrupts + Send + Sync + 'static {}

impl<T: Platform + Payload + Interrupts + Send + Sync + 'static> HostPlatform for T {}

impl<T: Transport> Interrupts for Function<T> {
    fn wait_fired(&self, limit: Ns, fired: &mut Vec<Vector>) -> Result<()> {
        Ok(self.wait_vectors(limit, fired)?)
    }
}

impl<P: Interrupts> Interrupts for Counted<P> {
    fn wait_fired(&self, limit: Ns, fired: &mut Vec<Vector>) -> Result<()> {
        self.inner().wait_fired(limit, fired)
    }
}
