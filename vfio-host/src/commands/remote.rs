//! Functions behind a backend: opening them, and what their LAN side is.

use anyhow::{Context, Error, Result, bail};
use e810::{Lan, MacAddr, VsiId};
use e810_hal::bus::RegIndex;
use e810_hal::regs::VSIQF_PE_CTL1;

use crate::backend::vfio_user::VfioUser;
use crate::backend::{BackendError, Function, Options, Transport};
use crate::cli::LanArgs;
use crate::spec::DeviceSpec;

/// The function that `spec` names, on a vfio-user socket.
pub(crate) fn open(spec: &DeviceSpec) -> Result<Function<VfioUser>> {
    match spec {
        DeviceSpec::VfioUser(path) => {
            let transport = VfioUser::connect(path)?;
            transport.on_failure(hush);
            Ok(Function::open(transport, Options::default())?)
        }
        DeviceSpec::Sim => bail!("the simulator of this process is no backend"),
        DeviceSpec::Vfio(_) => bail!(
            "{spec}: this build has no backend for it yet; use `sim` or `vfio-user:PATH` (see README, what works where)"
        ),
    }
}

/// What the driver logs about a device that reads as all-ones is true and
/// hides the cause, which the command prints: unless somebody asked for a log,
/// there is none from then on.
fn hush(_: &BackendError) {
    if std::env::var_os("RUST_LOG").is_none() {
        log::set_max_level(log::LevelFilter::Off);
    }
}

/// The LAN side of a function that somebody else has made ready: as asked, or
/// as far as the function itself tells.
pub(crate) fn lan<T: Transport>(function: &Function<T>, asked: &LanArgs) -> Result<Lan> {
    let name = function.transport().name();
    let mac = asked.mac.or_else(|| function.identity().mac());
    let mac = mac.with_context(|| {
        format!("{name}: its serial number is not made of an Ethernet address; give one with --mac")
    })?;
    let vsi = match asked.vsi {
        Some(vsi) => VsiId::new(vsi).with_context(|| format!("{vsi} is no VSI"))?,
        None => vsi(function)?,
    };
    Ok(Lan {
        vsi,
        mac: MacAddr(mac),
        mtu: asked.mtu,
    })
}

/// The only VSI whose packets may reach the RDMA engine.
fn vsi<T: Transport>(function: &Function<T>) -> Result<VsiId> {
    let name = function.transport().name();
    let all = (0..=VsiId::MAX).filter_map(VsiId::from_u32);
    let open: Vec<VsiId> = all
        .filter(|vsi| VSIQF_PE_CTL1.at(*vsi).get(function) & 1 != 0)
        .collect();
    if let Some(failure) = function.failure() {
        return Err(Error::new(failure.clone()));
    }
    match *open {
        [vsi] => Ok(vsi),
        [] => bail!(
            "{name}: no VSI lets packets into the RDMA engine: the function's LAN side is not ready"
        ),
        [..] => bail!(
            "{name}: {} VSIs let packets into the RDMA engine: choose one with --vsi",
            open.len()
        ),
    }
}

/// `result`, or, when a transport failed underneath, why: what the driver
/// makes of a device that reads as all-ones helps nobody then.
pub(crate) fn explain<T: Transport, R>(result: Result<R>, functions: &[&Function<T>]) -> Result<R> {
    result.map_err(|error| {
        // A server that hangs swallows doorbells: the driver misses a
        // completion, and only a question shows why.
        let failure = functions.iter().find_map(|function| {
            let _ = function.probe();
            function.failure()
        });
        match failure {
            Some(failure) => {
                log::info!("seen by the driver as: {error:#}");
                Error::new(failure.clone())
            }
            None => error,
        }
    })
}
