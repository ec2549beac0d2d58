//! Whether the devices of a command are still there.

use std::cell::Cell;
use std::env;
use std::time::{Duration, Instant};

use anyhow::{Error, Result};
use e810_backends::{BackendError, HostDevice, Notice};

/// Stops the driver's log, unless the user asked for a log. What it says about a device that reads
/// as all-ones would hide the cause, which the command prints.
pub(crate) fn silence_driver_log(_: &BackendError) {
    if env::var_os("RUST_LOG").is_none() {
        log::set_max_level(log::LevelFilter::Off);
    }
}

/// The kernel's notice that ended a command.
#[derive(Debug, thiserror::Error)]
#[error(
    "{device}: {notice}; the driver has stopped, and the function is free for the process that asked"
)]
pub(crate) struct KernelNotice {
    device: String,
    notice: Notice,
}

/// How often this checks for notices.
const NOTICE_INTERVAL: Duration = Duration::from_millis(10);

/// Fails with [`KernelNotice`] once the kernel has a notice for one of the functions, or with the
/// failure of a transport once there is one.
pub(crate) fn watch<D: HostDevice, const N: usize>(functions: [&D; N]) -> impl Fn() -> Result<()> {
    let functions = functions.map(D::clone);
    let next = Cell::new(Instant::now());
    move || {
        let now = Instant::now();
        if now < next.get() {
            return Ok(());
        }
        next.set(now + NOTICE_INTERVAL);
        if let Some((device, notice)) = functions.iter().find_map(|device| device.notice()) {
            return Err(KernelNotice { device, notice }.into());
        }
        match functions.iter().find_map(|function| function.failure()) {
            Some(failure) => Err(Error::new(failure.clone())),
            None => Ok(()),
        }
    }
}

/// Probes each function. A server that died or hangs swallows doorbells, and the driver only misses
/// a completion; a probe shows why.
pub(crate) fn probe<D: HostDevice>(functions: &[&D]) {
    for function in functions {
        // A transport that fails keeps the cause in `failure`.
        let _ = function.probe();
    }
}

/// Whether one of the functions is gone, after a probe of each.
pub(crate) fn is_lost<D: HostDevice>(functions: &[&D]) -> bool {
    probe(functions);
    functions
        .iter()
        .any(|function| function.failure().is_some())
}

/// Returns `result`, or the failure of a transport if there is one: the driver's error about a
/// device that reads as all-ones does not help then.
pub(crate) fn explain<D: HostDevice, R>(result: Result<R>, functions: &[&D]) -> Result<R> {
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
