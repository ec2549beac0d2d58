//! Functions behind a backend: opening them, and what their LAN side is.

use std::cell::Cell;
use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Error, Result, ensure};
use e810_backends::host::Host;
use e810_backends::host::limits::{self, Memlock};
use e810_backends::host::pci::DEVICES;
use e810_backends::spec::{Bdf, DeviceSpec, Way};
use e810_backends::vfio::Vfio;
use e810_backends::vfio_user::VfioUser;
use e810_backends::{BackendError, Function, Notice, Transport};

use crate::cli::{BackendArgs, StartArgs};
use crate::functions::memory_need;
use crate::functions::start::{Source, Start, usual_ceqs};

/// The function that another process serves on the socket `path`.
pub(crate) fn open_user(path: &Path, args: BackendArgs) -> Result<Function<VfioUser>> {
    let transport = VfioUser::connect(path)?;
    transport.on_failure(hush);
    Ok(Function::open(transport, args.options())?)
}

/// What the driver logs about a device that reads as all-ones is true and
/// hides the cause, which the command prints: unless somebody asked for a log,
/// there is none from then on.
fn hush(_: &BackendError) {
    if env::var_os("RUST_LOG").is_none() {
        log::set_max_level(log::LevelFilter::Off);
    }
}

/// Says so when `functions` functions need more memory than this process may
/// pin: the kernel's refusal in the middle of a bring-up tells less.
///
/// A warning, because only the device can tell the sizes of its objects.
pub(crate) fn warn_of_memlock(functions: u64) {
    let Some(Memlock::Bytes(limit)) = limits::memlock(&Host::new("/")) else {
        return;
    };
    match memory_need::need() {
        Ok(need) if limit < need.bytes().saturating_mul(functions) => log::warn!(
            "this process may pin {limit} bytes, and {} of a card: {} bytes, and what is registered; `e810 doctor` says how to raise the limit",
            match functions {
                1 => "there is need for one function".to_owned(),
                many => format!("there is need for {many} functions"),
            },
            need.bytes().saturating_mul(functions)
        ),
        Ok(_) => {}
        Err(error) => log::debug!("memory needed is not known: {error:#}"),
    }
}

/// The function at `bdf`, bound to vfio-pci.
pub(crate) fn open_vfio(bdf: Bdf, way: Way, args: BackendArgs) -> Result<Function<Vfio>> {
    Ok(Function::open(Vfio::open_by(bdf, way)?, args.options())?)
}

/// The kernel's notice that ended a command.
#[derive(Debug, thiserror::Error)]
#[error("{device}: {notice}; the driver has stopped, and the function is free for whoever asked")]
pub(crate) struct Told {
    device: String,
    notice: Notice,
}

/// How often notices are asked for.
const LOOK: Duration = Duration::from_millis(10);

/// Fails with [`Told`] once the kernel has a notice for one of the functions,
/// and with its failure once a transport has one.
pub(crate) fn watch<T: Transport, const N: usize>(
    functions: [&Function<T>; N],
) -> impl Fn() -> Result<()> {
    let functions = functions.map(Clone::clone);
    let next = Cell::new(Instant::now());
    move || {
        let now = Instant::now();
        if now < next.get() {
            return Ok(());
        }
        next.set(now + LOOK);
        let told = |function: &Function<T>| {
            let device = function.transport().name().to_owned();
            function.notice().map(|notice| Told { device, notice })
        };
        if let Some(told) = functions.iter().find_map(told) {
            return Err(told.into());
        }
        match functions.iter().find_map(|function| function.failure()) {
            Some(failure) => Err(Error::new(failure.clone())),
            None => Ok(()),
        }
    }
}

/// MTU of an interface where none is given.
const MTU: u16 = 1500;
/// The environment variable that names a package where no option does.
const DDP: &str = "E810_DDP";

/// Looks whether there is anything by this name, before something else is said of
/// it.
///
/// # Errors
/// There is not, and what there is.
pub(crate) fn exists(host: &Host, device: &DeviceSpec) -> Result<()> {
    match device {
        DeviceSpec::Sim => {}
        DeviceSpec::VfioUser(path) => {
            let found = path.symlink_metadata();
            let is_missing = found.is_err_and(|error| error.kind() == ErrorKind::NotFound);
            ensure!(
                !is_missing,
                "{device}: there is no such socket; start `e810 sim --socket {}`, or name another path",
                path.display()
            );
        }
        DeviceSpec::Vfio(bdf, _) => ensure!(
            host.exists(&format!("{DEVICES}/{bdf}")),
            "{device}: there is no such PCI function; `e810 list` shows the E810s of this machine"
        ),
    }
    Ok(())
}

/// How a function is started: from its reset on with the package for its card,
/// or, if asked for, on a LAN side that somebody else has made ready.
pub(crate) fn start<T: Transport>(function: &Function<T>, asked: &StartArgs) -> Result<Start> {
    let mtu = asked.mtu.unwrap_or(MTU);
    if asked.warm {
        let lan = e810_backends::lan(function, asked.mac, asked.vsi, mtu)?;
        return Ok(Start::Warm {
            lan,
            ceqs: usual_ceqs(),
        });
    }
    let serial = function.identity().serial;
    let environment = env::var_os(DDP).filter(|path| !path.is_empty());
    let environment = environment.map(PathBuf::from);
    let (by, named) = match &asked.ddp {
        Some(path) => ("--ddp", Some(path)),
        None => (DDP, environment.as_ref()),
    };
    let named = named.map(|path| (by, path.as_path()));
    let package = Source::choose(&Host::default(), named, serial)?;
    if let Source::File(file) = &package {
        log::info!("package: {}", file.path.display());
    }
    Ok(Start::Cold {
        package,
        mtu,
        ceqs: usual_ceqs(),
        leave_link: asked.leave_link,
    })
}

/// Asks each function for a sign of life: a server that died or hangs swallows
/// doorbells, the driver misses a completion, and only a question shows why.
pub(crate) fn probe<T: Transport>(functions: &[&Function<T>]) {
    for function in functions {
        // Whoever has none says so in `failure`.
        let _ = function.probe();
    }
}

/// Whether one of the functions is gone, as far as a question shows.
pub(crate) fn is_lost<T: Transport>(functions: &[&Function<T>]) -> bool {
    probe(functions);
    functions
        .iter()
        .any(|function| function.failure().is_some())
}

/// `result`, or, when a transport failed underneath, why: what the driver
/// makes of a device that reads as all-ones helps nobody then.
pub(crate) fn explain<T: Transport, R>(result: Result<R>, functions: &[&Function<T>]) -> Result<R> {
    result.map_err(|error| {
        probe(functions);
        let failure = functions.iter().find_map(|function| function.failure());
        match failure {
            Some(failure) => {
                log::info!("seen by the driver as: {error:#}");
                Error::new(failure.clone())
            }
            None => error,
        }
    })
}
