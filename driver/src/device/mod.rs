//! The stages of a bring-up, each undone in order.

use e810_hal::Platform;

use crate::config::Config;
use crate::error::{Error, Result};

mod aeq;
mod bring_up;
mod ccq;
mod ceqs;
mod cqp;
mod engine;
mod hmc;
mod ready;

pub use aeq::AeqUp;
pub use bring_up::{Reached, bring_up};
pub(crate) use ccq::CEQ_0;
pub use ccq::CcqUp;
pub use ceqs::CeqsUp;
pub use cqp::CqpUp;
pub use engine::EngineReady;
pub use hmc::{HmcUp, Memory};
pub(crate) use ready::Below;
pub use ready::Ready;

/// A device in stage `S`.
///
/// A stage's transition consumes the device and gives the next stage, or the
/// same stage back with the error: what it had made is undone by then. What
/// the device may still use stays allocated, and the error says so.
#[derive(Debug)]
#[must_use = "dropping a device that was brought up leaks its memory: call shutdown()"]
pub struct Device<P: Platform, S> {
    platform: P,
    config: Config,
    stage: S,
}

/// A transition that failed: the stage before, and why.
pub type Failed<P, S> = (Device<P, S>, Error);

/// Nothing is known of the device, nothing was written to it.
#[derive(Debug)]
pub struct Attached(());

impl<P: Platform, S> Device<P, S> {
    fn map<T>(self, next: impl FnOnce(S) -> T) -> Device<P, T> {
        Device {
            platform: self.platform,
            config: self.config,
            stage: next(self.stage),
        }
    }
}

impl<P: Platform> Device<P, Attached> {
    /// Takes a function whose LAN side is ready. Touches nothing yet.
    pub const fn attach(platform: P, config: Config) -> Self {
        Self {
            platform,
            config,
            stage: Attached(()),
        }
    }

    /// Nothing to undo.
    ///
    /// # Errors
    /// None.
    pub fn shutdown(self) -> Result<()> {
        Ok(())
    }
}
