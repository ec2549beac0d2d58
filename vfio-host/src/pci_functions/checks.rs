//! Checks before a device is opened.

use std::io::ErrorKind;

use anyhow::{Result, bail, ensure};
use e810_backends::host::Host;
use e810_backends::host::limits::{self, Memlock};
use e810_backends::host::pci::DEVICES;
use e810_backends::host::socket;
use e810_backends::spec::DeviceSpec;

use super::memory_need;

/// Checks that the device exists, before anything else about it is reported.
///
/// # Errors
/// It does not; the text says what is there instead.
pub(crate) fn exists(host: &Host, device: &DeviceSpec) -> Result<()> {
    if let Some(path) = device.socket() {
        let found = path.symlink_metadata();
        let is_missing = found.is_err_and(|error| error.kind() == ErrorKind::NotFound);
        ensure!(
            !is_missing,
            "{device}: no such socket; start `e810 sim --socket {}`, or name another path",
            path.display()
        );
        if let Some(why) = socket::why_not(path) {
            bail!("{device}: {why}; name the socket of `e810 sim --socket PATH`");
        }
    }
    if let Some(bdf) = device.bdf() {
        ensure!(
            host.exists(&format!("{DEVICES}/{bdf}")),
            "{device}: no such PCI function; `e810 list` shows the E810s of this machine"
        );
    }
    Ok(())
}

/// Warns if functions of this machine need more memory than this process may pin: the kernel's
/// error in the middle of a bring-up says less.
///
/// It is only a warning, because only the device knows the sizes of its objects.
pub(crate) fn warn_of_memlock(devices: &[&DeviceSpec]) {
    let functions = devices.iter().filter_map(|device| device.bdf()).count() as u64;
    if functions == 0 {
        return;
    }
    let Some(Memlock::Bytes(limit)) = limits::memlock(&Host::new("/")) else {
        return;
    };
    match memory_need::need() {
        Ok(need) if limit < need.bytes().saturating_mul(functions) => log::warn!(
            "this process may pin {limit} bytes, but {} of a card {} bytes and what is registered; `e810 doctor` says how to raise the limit",
            match functions {
                1 => "one function needs".to_owned(),
                many => format!("{many} functions need"),
            },
            need.bytes().saturating_mul(functions)
        ),
        Ok(_) => {}
        Err(error) => log::debug!("memory needed is not known: {error:#}"),
    }
}
