//! All stages in one call.

use e810_hal::Platform;

use super::{AeqUp, CcqUp, CeqsUp, CqpUp, Device, EngineReady, HmcUp, Ready};
use crate::config::Config;
use crate::error::StageError;
use crate::stage::Stage;

/// A stage that was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reached {
    /// The stage.
    pub stage: Stage,
    /// CQP commands posted since the start.
    pub commands: u64,
}

/// Commands that a stage's CQP was given.
trait Commands {
    fn commands(&self) -> u64;
}

impl Commands for EngineReady {
    fn commands(&self) -> u64 {
        0
    }
}

macro_rules! commands_below {
    ($($stage:ident: $($path:ident).+),+ $(,)?) => { $(
        impl<P: Platform> Commands for $stage<P> {
            fn commands(&self) -> u64 {
                self.$($path).+.counters().posted
            }
        }
    )+ };
}

commands_below! {
    CqpUp: cqp,
    HmcUp: cqp,
    CcqUp: below.cqp,
    CeqsUp: below.cqp,
    AeqUp: below.below.cqp,
}

impl<P: Platform> Commands for Ready<P> {
    fn commands(&self) -> u64 {
        self.control.commands()
    }
}

/// Takes a device through all stages; `observe` is told each one that was
/// reached. On failure everything done is undone.
///
/// # Errors
/// The stage that failed, and why.
pub fn bring_up<P: Platform>(
    platform: P,
    config: &Config,
    observe: &mut dyn FnMut(Reached),
) -> Result<Device<P, Ready<P>>, StageError> {
    macro_rules! enter {
        ($device:ident . $transition:ident, $stage:ident) => {
            match $device.$transition() {
                Ok(next) => {
                    observe(Reached {
                        stage: Stage::$stage,
                        commands: next.stage.commands(),
                    });
                    next
                }
                Err((before, error)) => {
                    return Err(StageError {
                        stage: Stage::$stage,
                        error,
                        undo: before.shutdown().err(),
                    });
                }
            }
        };
    }
    let device = Device::attach(platform, *config);
    let device = enter!(device.wait_ready, EngineReady);
    let device = enter!(device.create_cqp, Cqp);
    let device = enter!(device.create_hmc, Hmc);
    let device = enter!(device.create_ccq, Ccq);
    let device = enter!(device.create_ceqs, Ceqs);
    let device = enter!(device.create_aeq, Aeq);
    let device = enter!(device.allocate_tables, Ready);
    Ok(device)
}
