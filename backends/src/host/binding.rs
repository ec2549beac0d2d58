//! Rebinding a function between its driver and vfio-pci, with a rollback on failure.
//!
//! The kernel rebinds; this module writes to the sysfs files that request it
//! and reads the result. What a function was bound to before is kept in
//! `/run/e810`, one file a function, so that it can be restored by another
//! process. `/run` is empty after a restart of the machine, and so is the need.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::pci::{DRIVERS, Function, VFIO_PCI, folder as folder_of};
use super::{Host, folder, read};
use crate::accept::Accept;
use crate::spec::Bdf;

/// Where the former drivers are remembered.
const STATE: &str = "/run/e810";
/// Asks the kernel to find a driver for a function.
const PROBE: &str = "/sys/bus/pci/drivers_probe";

/// The writes that change the machine.
pub trait Kernel {
    /// Writes `text` to the file at `path`, which exists.
    ///
    /// # Errors
    /// The kernel's refusal.
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()>;
}

/// The kernel behind sysfs.
#[derive(Debug, Default)]
pub struct Sysfs;

impl Kernel for Sysfs {
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).open(path)?;
        // One write, because each is one request.
        file.write_all(text.as_bytes())
    }
}

/// What a function was bound to before vfio-pci. It is remembered with the ids of the function:
/// another device that later has the address is none that [`bind`] moved.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Former {
    /// Its driver.
    pub driver: Option<String>,
    /// Its driver_override.
    pub driver_override: Option<String>,
}

impl Former {
    fn of(function: &Function) -> Self {
        Self {
            driver: function.driver.clone(),
            driver_override: function.driver_override.clone(),
        }
    }

    fn file(host: &Host, bdf: Bdf) -> PathBuf {
        host.path(STATE).join(bdf.to_string())
    }

    /// What was remembered of the function that is now at `bdf`.
    #[must_use]
    pub fn load(host: &Host, bdf: Bdf) -> Option<Self> {
        let text = read(&Self::file(host, bdf))?;
        let ids = Self::ids(&Function::read(host, bdf)?);
        if !text.lines().any(|line| line == ids) {
            return None;
        }
        let value = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name))?;
            // A name is one part of a path and nothing else.
            let sound = !value.is_empty() && !value.contains('/') && value != "..";
            sound.then(|| value.to_owned())
        };
        Some(Self {
            driver: value("driver="),
            driver_override: value("override="),
        })
    }

    fn ids(function: &Function) -> String {
        format!("ids={:04x}:{:04x}", function.vendor, function.device)
    }

    fn save(&self, host: &Host, function: &Function) -> Result<()> {
        let file = Self::file(host, function.bdf);
        let line = |value: &Option<String>| value.clone().unwrap_or_default();
        let text = format!(
            "{}\ndriver={}\noverride={}\n",
            Self::ids(function),
            line(&self.driver),
            line(&self.driver_override)
        );
        // Beside it first: half a record would say that the function had no driver.
        let new = host.path(STATE).join(format!("{}.new", function.bdf));
        let saved = fs::create_dir_all(host.path(STATE))
            .and_then(|()| fs::write(&new, text))
            .and_then(|()| fs::rename(&new, &file));
        saved.map_err(|error| {
            let _ = fs::remove_file(&new);
            anyhow::anyhow!("writing {}: {error}{}", file.display(), hint(&error))
        })
    }

    fn forget(host: &Host, bdf: Bdf) -> Result<()> {
        let file = Self::file(host, bdf);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {}", file.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Binds `function` to vfio-pci, if `accept` has it, and remembers what it was
/// bound to. On a failure it is put back as it was.
///
/// # Errors
/// What it is, when it is none of those; what the kernel refused; when putting it back failed
/// as well, that too.
pub fn bind(
    host: &Host,
    kernel: &mut dyn Kernel,
    function: &Function,
    accept: Accept,
) -> Result<()> {
    let bdf = function.bdf;
    folder::check(host, &bdf.to_string(), bdf, accept)?;
    if function.is_on_vfio() {
        return Ok(());
    }
    // An attempt that was cut short has the override set and the file written;
    // what the file says is older and right.
    let cut_short = function.driver_override.as_deref() == Some(VFIO_PCI);
    let former = Former::load(host, bdf)
        .filter(|_| cut_short)
        .unwrap_or_else(|| Former::of(function));
    former.save(host, function)?;
    let Err(error) = take(host, kernel, bdf) else {
        return Ok(());
    };
    match give_back(host, kernel, bdf, &former).and_then(|()| Former::forget(host, bdf)) {
        Ok(()) => Err(error.context(format!("{bdf}: not bound, and left as it was"))),
        Err(undo) => Err(error.context(format!(
            "{bdf}: not bound, and restoring it failed ({undo:#})"
        ))),
    }
}

/// What [`unbind`] did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Restored {
    /// Nothing: it was not bound to vfio-pci and nothing was remembered.
    Nothing,
    /// It is bound to this driver, or to none, as it was before.
    Former(Option<String>),
    /// Nothing was remembered; the kernel has chosen this driver, or none.
    Chosen(Option<String>),
}

/// Checks that [`unbind`] may move the function at `bdf`: one that [`bind`] moved, or a
/// physical function of an E810.
///
/// # Errors
/// What it is.
pub fn may_unbind(host: &Host, bdf: Bdf) -> Result<()> {
    match Former::load(host, bdf) {
        Some(_) => Ok(()),
        None => Ok(folder::check(host, &bdf.to_string(), bdf, Accept::E810)?),
    }
}

/// Takes `function` from vfio-pci and restores what it was bound to. On a
/// failure it is bound to vfio-pci again.
///
/// # Errors
/// [`may_unbind`]; a former driver that is not loaded (nothing is changed then), and what the
/// kernel refused.
pub fn unbind(host: &Host, kernel: &mut dyn Kernel, function: &Function) -> Result<Restored> {
    let bdf = function.bdf;
    may_unbind(host, bdf)?;
    let remembered = Former::load(host, bdf);
    if remembered.is_none() && !function.is_on_vfio() {
        return Ok(Restored::Nothing);
    }
    let former = remembered.clone().unwrap_or_default();
    if let Some(driver) = &former.driver {
        ensure!(
            host.exists(&format!("{DRIVERS}/{driver}")),
            "{bdf}: its former driver {driver} is not loaded; load it first: modprobe {driver}"
        );
    }
    let mut restored = give_back(host, kernel, bdf, &former);
    if remembered.is_none() {
        restored = restored.and_then(|()| write(kernel, &host.path(PROBE), &bdf.to_string()));
    }
    if let Err(error) = restored {
        // It was on a driver that someone else chose: not ours to move.
        if !function.is_on_vfio() {
            return Err(error.context(format!("{bdf}: not restored")));
        }
        let what = match take(host, kernel, bdf) {
            Ok(()) => "it is on vfio-pci as before".to_owned(),
            Err(undo) => format!("and binding it to vfio-pci again failed ({undo:#})"),
        };
        return Err(error.context(format!("{bdf}: not restored, {what}")));
    }
    Former::forget(host, bdf)?;
    let driver = read_function(host, bdf)?.driver;
    Ok(match remembered {
        Some(_) => Restored::Former(driver),
        None => Restored::Chosen(driver),
    })
}

fn read_function(host: &Host, bdf: Bdf) -> Result<Function> {
    Function::read(host, bdf).with_context(|| format!("{bdf}: the function is gone"))
}

fn write(kernel: &mut dyn Kernel, path: &Path, text: &str) -> Result<()> {
    kernel.write(path, text).map_err(|error| {
        anyhow::anyhow!(
            "writing `{}` to {}: {error}{}",
            text.trim(),
            path.display(),
            hint(&error)
        )
    })
}

/// What to do about a failed write.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => ": run this as root",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ": make room there",
        _ => "",
    }
}

/// Sets the override, unless it is that already: undoing must not fail for want
/// of a right that was missing.
fn set_override(
    host: &Host,
    kernel: &mut dyn Kernel,
    function: &Function,
    driver: &str,
) -> Result<()> {
    if function.driver_override.as_deref().unwrap_or("") == driver {
        return Ok(());
    }
    let file = folder_of(host, function.bdf).join("driver_override");
    // An empty line clears it.
    write(kernel, &file, &format!("{driver}\n"))
}

fn driver_file(host: &Host, driver: &str, file: &str) -> PathBuf {
    host.path(DRIVERS).join(driver).join(file)
}

/// To vfio-pci, from whatever it is bound to.
fn take(host: &Host, kernel: &mut dyn Kernel, bdf: Bdf) -> Result<()> {
    let function = read_function(host, bdf)?;
    set_override(host, kernel, &function, VFIO_PCI)?;
    let address = bdf.to_string();
    match function.driver.as_deref() {
        Some(VFIO_PCI) => return Ok(()),
        Some(driver) => write(kernel, &driver_file(host, driver, "unbind"), &address)?,
        None => {}
    }
    write(kernel, &host.path(PROBE), &address)?;
    let now = read_function(host, bdf)?;
    if !now.is_on_vfio() {
        bail!(
            "the kernel bound {} instead of vfio-pci; `dmesg` has its reason",
            now.driver_name()
        );
    }
    Ok(())
}

/// From vfio-pci, if it is there, to what it was bound to. A driver that was
/// bound by someone else in the meantime is left where it is.
fn give_back(host: &Host, kernel: &mut dyn Kernel, bdf: Bdf, former: &Former) -> Result<()> {
    let function = read_function(host, bdf)?;
    let address = bdf.to_string();
    if function.is_on_vfio() {
        write(kernel, &driver_file(host, VFIO_PCI, "unbind"), &address)?;
    }
    let wanted = former.driver_override.as_deref().unwrap_or("");
    set_override(host, kernel, &function, wanted)?;
    let Some(driver) = former.driver.as_deref() else {
        return Ok(());
    };
    if read_function(host, bdf)?.driver.is_none() {
        write(kernel, &driver_file(host, driver, "bind"), &address)?;
        let now = read_function(host, bdf)?;
        ensure!(
            now.driver.as_deref() == Some(driver),
            "{driver} did not take the function back; `dmesg` has its reason"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
