//! The stages of a bring-up, each undone in order.

use core::fmt;

use e810_hal::Platform;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::lan::LanOwnership;

mod aeq;
mod all_stages;
mod ccq;
mod ceqs;
mod cold;
mod cqp;
mod engine;
mod hmc;
mod ready;

pub use aeq::AeqUp;
use all_stages::Commands;
pub use all_stages::{ColdStart, Reached, bring_up, bring_up_cold};
pub use ccq::CcqUp;
pub use ceqs::CeqsUp;
pub use cold::{
    AdminqUp, Cold, FunctionReset, Identified, LanReady, LinkPolicy, LinkUp, PackageLoaded,
    PackageSource, TreeFound, VsiUp, reset_card,
};
pub use cqp::CqpUp;
pub use engine::EngineReady;
use engine::function_number;
pub use hmc::HmcUp;
pub use ready::Ready;

/// A device in stage `S`.
///
/// A stage's transition consumes the device and gives the next stage. On an error it gives the
/// same stage back, and what it had made is undone by then. What the device may still use stays
/// allocated, and the error says so.
// Transitions are not inlined: merged into one function, stages are moved field
// by field, and all of them are on the stack at once.
#[must_use = "dropping a device that was brought up leaks its memory: call shutdown()"]
pub struct Device<P: Platform, S> {
    platform: P,
    config: Config,
    /// The LAN side, from the engine's first stage on.
    lan_side: LanOwnership<P>,
    stage: S,
}

/// Without the platform and what the stage has made.
impl<P: Platform, S> fmt::Debug for Device<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// A transition that failed: the stage before, and why.
pub type Failed<P, S> = (Device<P, S>, Error);

/// Nothing is known about the device, and nothing was written to it.
#[derive(Debug)]
pub struct Attached(());

impl<P: Platform, S> Device<P, S> {
    /// A device that owns no LAN side, or whose stage holds what exists of it.
    const fn begin(platform: P, config: Config, stage: S) -> Self {
        Self {
            platform,
            config,
            lan_side: LanOwnership::NotOwned,
            stage,
        }
    }

    fn map<T>(self, next: impl FnOnce(S) -> T) -> Device<P, T> {
        let (stage, rest) = self.take();
        rest.with(next(stage))
    }

    /// The stage, and what all stages have in common.
    fn take(self) -> (S, Rest<P>) {
        let rest = Rest {
            platform: self.platform,
            config: self.config,
            lan_side: self.lan_side,
        };
        (self.stage, rest)
    }
}

/// A device without its stage.
#[derive(Debug)]
struct Rest<P: Platform> {
    platform: P,
    config: Config,
    lan_side: LanOwnership<P>,
}

impl<P: Platform> Rest<P> {
    fn with<S>(self, stage: S) -> Device<P, S> {
        Device {
            platform: self.platform,
            config: self.config,
            lan_side: self.lan_side,
            stage,
        }
    }

    /// The end of a shutdown: whatever became of the engine, a LAN side that is ours is undone
    /// too. The first error counts.
    fn end(self, engine: Result<()>) -> Result<()> {
        engine.and(self.lan_side.undo(&self.platform))
    }
}

impl<P: Platform> Device<P, Attached> {
    /// Takes a function whose LAN side is ready. Touches nothing yet.
    pub const fn attach(platform: P, config: Config) -> Self {
        Self::begin(platform, config, Attached(()))
    }

    /// Nothing to undo.
    ///
    /// # Errors
    /// None.
    pub fn shutdown(self) -> Result<()> {
        Ok(())
    }
}
