//! How a function is started, according to the options.

use anyhow::Result;
use e810::Quirks;
use e810_backends::HostDevice;
use e810_backends::host::Host;
use e810_node::start::{MTU, Source, Start, usual_ceqs};

use super::watch::silence_driver_log;
use crate::cli::StartArgs;

/// How a function is started: from its reset on, with the package for its card, or with `--warm` on
/// a LAN side that is up already.
///
/// From then on, the driver stops logging about the function if its transport fails.
///
/// # Errors
/// A package that cannot be read, or options of the LAN side that are missing or not allowed.
pub(crate) fn start<D: HostDevice>(device: &D, asked: &StartArgs) -> Result<Start> {
    start_with(device, asked, asked.quirks()?)
}

/// The same, with what is known of the card.
///
/// # Errors
/// As [`start`].
pub(crate) fn start_with<D: HostDevice>(
    device: &D,
    asked: &StartArgs,
    quirks: Quirks,
) -> Result<Start> {
    asked.check()?;
    device.on_failure(silence_driver_log);
    let mtu = asked.mtu.unwrap_or(MTU);
    if asked.warm {
        let lan = device.lan(asked.mac, asked.vsi, mtu)?;
        return Ok(Start::Warm {
            lan,
            ceqs: usual_ceqs(),
            quirks,
        });
    }
    let serial = device.identity().map_or([0; 8], |identity| identity.serial);
    let package = match &asked.ddp {
        Some(path) => Source::choose(&Host::default(), Some(("--ddp", path)), serial)?,
        None => Source::usual(serial)?,
    };
    if let Source::File(file) = &package {
        log::info!("package: {}", file.path.display());
    }
    Ok(Start::Cold {
        package,
        mtu,
        ceqs: usual_ceqs(),
        leave_link: asked.leave_link,
        quirks,
    })
}
