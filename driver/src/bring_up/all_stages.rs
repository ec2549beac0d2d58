//! All stages in one call.

use e810_hal::Platform;

use super::{
    AeqUp, CcqUp, CeqsUp, CqpUp, Device, EngineReady, HmcUp, LinkPolicy, PackageSource, Ready,
};
use crate::config::Config;
use crate::error::StageError;
use crate::stage::Stage;

/// A stage that was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reached {
    /// The stage. [`Stage::name`] fits here; its `Display` says what is being done
    /// on the way to it, for errors.
    pub stage: Stage,
    /// CQP commands posted since the start.
    pub commands: u64,
    /// AdminQ commands sent since the start.
    pub admin_commands: u64,
}

/// What a cold start needs beyond the [`Config`].
#[derive(Clone, Copy, Debug)]
pub struct ColdStart<'a> {
    /// Where the DDP package comes from.
    pub package: PackageSource<'a>,
    /// What to do about a port without a link.
    pub link: LinkPolicy,
}

/// Commands given to a stage's CQP, and to the AdminQ of a stage of the LAN side.
pub(super) trait Commands {
    /// CQP commands.
    fn commands(&self) -> u64 {
        0
    }
    /// AdminQ commands, where the AdminQ is the stage's own.
    fn admin_commands(&self) -> u64 {
        0
    }
}

impl Commands for EngineReady {}

macro_rules! commands {
    ($($stage:ident: $($path:ident).+),+ $(,)?) => { $(
        impl<P: Platform> Commands for $stage<P> {
            fn commands(&self) -> u64 {
                self.$($path).+.counters().posted
            }
        }
    )+ };
}

commands! {
    CqpUp: cqp,
    HmcUp: cqp,
    CcqUp: cqp,
    CeqsUp: cqp,
    AeqUp: engine.cqp,
}

impl<P: Platform> Commands for Ready<P> {
    fn commands(&self) -> u64 {
        self.control.commands()
    }
    fn admin_commands(&self) -> u64 {
        let lan = self.control.lan_side();
        lan.map_or(0, |lan| lan.counters().commands)
    }
}

fn reached<P: Platform, S: Commands>(device: &Device<P, S>, stage: Stage) -> Reached {
    // From the engine's first stage on the device has the AdminQ.
    let lan_side = device.lan_side.owned();
    let admin = lan_side.map_or(0, |lan| lan.counters().commands);
    Reached {
        stage,
        commands: device.stage.commands(),
        admin_commands: admin.max(device.stage.admin_commands()),
    }
}

/// Enters a stage, or undoes everything and returns the reason.
macro_rules! enter {
    ($observe:ident, $device:ident . $transition:ident ($($argument:expr),*), $stage:ident) => {
        match $device.$transition($($argument),*) {
            Ok(next) => {
                $observe(reached(&next, Stage::$stage));
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

/// Takes a function whose LAN side is ready through all stages of the engine; calls `observe` for
/// each stage that was reached. On failure everything is undone.
///
/// # Errors
/// The stage that failed, and why.
#[doc(alias("ibv_get_device_list", "ibv_open_device"))]
pub fn bring_up<P: Platform>(
    platform: P,
    config: &Config,
    observe: &mut dyn FnMut(Reached),
) -> Result<Device<P, Ready<P>>, StageError> {
    let device = Device::attach(platform, *config);
    let device = enter!(observe, device.wait_ready(), EngineReady);
    engine(device, observe)
}

/// Takes a function that no other driver has set up through all stages, from its reset on; calls
/// `observe` for each stage that was reached. On failure everything is undone, and the function
/// is reset.
///
/// VSI and MAC address of `config` are not used: the cold start finds its own,
/// see [`Control::lan`](crate::Control::lan).
///
/// # Errors
/// The stage that failed, and why.
#[doc(alias("ibv_get_device_list", "ibv_open_device"))]
pub fn bring_up_cold<P: Platform>(
    platform: P,
    config: &Config,
    start: &ColdStart<'_>,
    observe: &mut dyn FnMut(Reached),
) -> Result<Device<P, Ready<P>>, StageError> {
    let device = Device::cold(platform, *config);
    let device = enter!(observe, device.reset(), Reset);
    let device = enter!(observe, device.start_adminq(), Adminq);
    let device = enter!(observe, device.identify(), Identity);
    let device = enter!(observe, device.find_tree(), Tree);
    let device = enter!(observe, device.load_package(&start.package), Package);
    let device = enter!(observe, device.add_vsi(), Vsi);
    let device = enter!(observe, device.enable_link(start.link), Link);
    let device = enter!(observe, device.add_rules(), Rules);
    let device = enter!(observe, device.wait_ready(), EngineReady);
    engine(device, observe)
}

/// The engine's stages after its processors are ready.
fn engine<P: Platform>(
    device: Device<P, EngineReady>,
    observe: &mut dyn FnMut(Reached),
) -> Result<Device<P, Ready<P>>, StageError> {
    let device = enter!(observe, device.create_cqp(), Cqp);
    let device = enter!(observe, device.create_hmc(), Hmc);
    let device = enter!(observe, device.create_ccq(), Ccq);
    let device = enter!(observe, device.create_ceqs(), Ceqs);
    let device = enter!(observe, device.create_aeq(), Aeq);
    let device = enter!(observe, device.allocate_tables(), Ready);
    Ok(device)
}
