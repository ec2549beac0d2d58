//! The bring-up, stopped at any stage.

use e810::{
    AeqUp, Attached, CcqUp, CeqsUp, Config, CqpUp, Device, EngineReady, HmcUp, Platform, Ready,
    Result, Stage, StageError,
};

/// A device at the stage that was asked for.
#[derive(Debug)]
#[must_use = "dropping a device that was brought up leaks its memory: call shutdown()"]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, and a test moves it once"
)]
pub enum AnyStage<P: Platform> {
    /// Nothing was done.
    Attached(Device<P, Attached>),
    /// The engine answers.
    EngineReady(Device<P, EngineReady>),
    /// The CQP exists.
    Cqp(Device<P, CqpUp<P>>),
    /// The HMC is backed.
    Hmc(Device<P, HmcUp<P>>),
    /// The CCQ exists.
    Ccq(Device<P, CcqUp<P>>),
    /// The CEQs exist.
    Ceqs(Device<P, CeqsUp<P>>),
    /// The AEQ exists.
    Aeq(Device<P, AeqUp<P>>),
    /// Ready for use.
    Ready(Device<P, Ready<P>>),
}

/// Takes a device up to `stage`; `None` only attaches.
///
/// # Errors
/// The stage that failed; what was done is undone, as
/// [`bring_up`](e810::bring_up) does it.
pub fn bring_up_to<P: Platform>(
    platform: P,
    config: Config,
    stage: Option<Stage>,
) -> Result<AnyStage<P>, StageError> {
    let last = stage.and_then(|stage| Stage::WARM.iter().position(|other| *other == stage));
    macro_rules! enter {
        ($device:ident.$transition:ident: $before:ident to $stage:ident) => {
            let reached = last.and_then(|last| Stage::WARM.get(..=last));
            if !reached.is_some_and(|stages| stages.contains(&Stage::$stage)) {
                return Ok(AnyStage::$before($device));
            }
            let $device = match $device.$transition() {
                Ok(next) => next,
                Err((before, error)) => {
                    return Err(StageError {
                        stage: Stage::$stage,
                        error,
                        undo: before.shutdown().err(),
                    });
                }
            };
        };
    }
    let device = Device::attach(platform, config);
    enter!(device.wait_ready: Attached to EngineReady);
    enter!(device.create_cqp: EngineReady to Cqp);
    enter!(device.create_hmc: Cqp to Hmc);
    enter!(device.create_ccq: Hmc to Ccq);
    enter!(device.create_ceqs: Ccq to Ceqs);
    enter!(device.create_aeq: Ceqs to Aeq);
    enter!(device.allocate_tables: Aeq to Ready);
    Ok(AnyStage::Ready(device))
}

impl<P: Platform> AnyStage<P> {
    /// Undoes everything in order.
    ///
    /// # Errors
    /// The first step that failed.
    pub fn shutdown(self) -> Result<()> {
        match self {
            Self::Attached(device) => device.shutdown(),
            Self::EngineReady(device) => device.shutdown(),
            Self::Cqp(device) => device.shutdown(),
            Self::Hmc(device) => device.shutdown(),
            Self::Ccq(device) => device.shutdown(),
            Self::Ceqs(device) => device.shutdown(),
            Self::Aeq(device) => device.shutdown(),
            Self::Ready(device) => device.shutdown(),
        }
    }
}
