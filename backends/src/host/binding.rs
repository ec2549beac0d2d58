//! Rebinding a function between its driver and vfio-pci, with a rollback on failure.
//!
//! The kernel does the rebinding; this module writes the sysfs files that request it and reads the
//! result. The former binding of a function is kept in `/run/e810`, one file for each function, so
//! that another process can restore it. A restart of the machine empties `/run`, and the binding
//! need not be restored then.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::pci::{DRIVERS, Function, VFIO_PCI, folder as folder_of};
use super::{Host, folder, read};
use crate::accept::Accept;
use crate::spec::Bdf;

/// The folder of the records of former drivers.
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

/// The binding of a function before vfio-pci. It is recorded with the ids of the function, so that
/// another device that later has the address is not taken for one that [`bind`] moved.
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

    /// The record about the function that is now at `bdf`.
    #[must_use]
    pub fn load(host: &Host, bdf: Bdf) -> Option<Self> {
        let text = read(&Self::file(host, bdf))?;
        let ids = Self::ids(&Function::read(host, bdf)?);
        if !text.lines().any(|line| line == ids) {
            return None;
        }
        let value = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name))?;
            // A name is one path component and nothing else.
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
        // Written under another name first: half a record would say that the function had no
        // driver.
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

/// Binds `function` to vfio-pci, if `accept` allows it, and records its former binding. On a
/// failure that is restored.
///
/// # Errors
/// What the function is, if `accept` does not allow it; the kernel's refusal; if the rollback
/// failed as well, that too.
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
    // An interrupted attempt leaves the override set and the file written; the file is older and
    // right.
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

/// The result of [`unbind`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Restored {
    /// Nothing was done: it was not bound to vfio-pci, and there was no record.
    Nothing,
    /// It is bound to its former driver, or to none if it had none.
    Former(Option<String>),
    /// There was no record; the kernel has chosen this driver, or none.
    Chosen(Option<String>),
}

/// Checks that [`unbind`] may move the function at `bdf`: one that [`bind`] moved, or a
/// physical function of an E810.
///
/// # Errors
/// What the function is.
pub fn may_unbind(host: &Host, bdf: Bdf) -> Result<()> {
    match Former::load(host, bdf) {
        Some(_) => Ok(()),
        None => Ok(folder::check(host, &bdf.to_string(), bdf, Accept::E810)?),
    }
}

/// Takes `function` from vfio-pci and restores its former binding. On a failure it is bound to
/// vfio-pci again.
///
/// # Errors
/// Errors of [`may_unbind`]; a former driver that is not loaded (nothing is changed then); the
/// kernel's refusal.
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
        // Someone else has bound it to a driver: it is not ours to move.
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

/// Sets the override, unless it has that value already: a rollback must not fail for lack of a
/// right that was missing before.
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

/// Binds it to vfio-pci, from whatever it is bound to.
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

/// Unbinds it from vfio-pci, if it is bound to that, and restores the former binding. If someone
/// else has bound another driver in the meantime, that stays.
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
