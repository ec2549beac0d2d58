//! Bringing a package onto the card (control-path 9.10).

use e810_hal::{Platform, log_info, log_warn};

use super::{Package, Step, Version};
use crate::code::Code;
use crate::error::{Error, Result};
use crate::limits::{GLOBAL_LOCK_MS, HUNK_PAUSE, HUNK_TRIES};
use crate::lock::with_lock;
use crate::op::{
    Data, DownloadFailure, GetPackageInfo, GetVlanMode, LocalForwarding, Resource,
    SetPortParameters, SetVlanMode, VlanMode, download,
};
use crate::opcode::Opcode;
use crate::queue::AdminQ;

/// Who brought the active package.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum LoadedBy {
    /// This driver, just now.
    Us,
    /// Another function of the card, since the card's last reset.
    AnotherFunction,
}

/// The package the card works with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Loaded {
    /// Who brought it.
    pub by: LoadedBy,
    /// Its version.
    pub version: Version,
    /// How many VLAN tags the card knows with it.
    pub vlan: VlanMode,
}

/// Loads `package`, unless another function has loaded one; without a package
/// (`None`) only sees whether one has.
///
/// Only one function of a card can do this after a reset of the card: the
/// global configuration lock is given once. While it is held the VLAN mode is
/// set too, which tells the RDMA engine where its frames' tag is.
///
/// # Errors
/// [`Error::NoPackage`], [`Error::FirmwareTooOld`], [`Error::ActivePackage`],
/// [`Error::PackageRefused`], [`Error::Locked`], and those of the commands. The
/// lock is given back.
pub fn load<P: Platform>(
    queue: &mut AdminQ<P>,
    package: Option<&Package<'_>>,
    swid: u16,
) -> Result<Loaded> {
    let by = match package {
        None => LoadedBy::AnotherFunction,
        Some(package) => {
            if !package.has_rdma() {
                log_warn!("the package holds no packet profiles for RDMA");
            }
            check_firmware(queue, package)?;
            let done = with_lock(queue, Resource::GLOBAL_CONFIG, GLOBAL_LOCK_MS, |queue| {
                send(queue, package)?;
                set_vlan_mode(queue, swid)
            })?;
            match done {
                Some(()) => LoadedBy::Us,
                None => LoadedBy::AnotherFunction,
            }
        }
    };
    let vlan = vlan_mode(queue)?.unwrap_or_default();
    let version = active(queue)?;
    log_info!("DDP package {}", version);
    Ok(Loaded { by, version, vlan })
}

/// The NVM's package says which format the firmware knows. A list without one
/// is no reason to refuse, as for existing drivers.
fn check_firmware<P: Platform>(queue: &mut AdminQ<P>, package: &Package<'_>) -> Result<()> {
    let needed = package.format();
    // By reference: the list's own iterator has a panic path.
    for info in &queue.execute(&GetPackageInfo)? {
        let found = info.version;
        if info.in_nvm && (found.major != needed.major || found.minor < needed.minor) {
            return Err(Error::FirmwareTooOld { needed, found });
        }
    }
    Ok(())
}

/// The active package. One that lies in the NVM is what the card boots with,
/// and does not count: existing drivers stay in safe mode with it.
fn active<P: Platform>(queue: &mut AdminQ<P>) -> Result<Version> {
    let list = queue.execute(&GetPackageInfo)?;
    let found = list
        .iter()
        .find(|info| info.active && !info.in_nvm)
        .map(|info| info.version)
        .ok_or(Error::NoPackage)?;
    if found.is_supported() {
        Ok(found)
    } else {
        Err(Error::ActivePackage { found })
    }
}

/// Sends all buffers. Which one is the last is known only when its successor
/// does not come, so each goes out one step late.
fn send<P: Platform>(queue: &mut AdminQ<P>, package: &Package<'_>) -> Result<()> {
    let mut held: Option<&[u8]> = None;
    let mut sent = 0;
    package.walk(|step| match step {
        Step::Buffer(buffer) => match held.replace(buffer) {
            Some(before) => hunk(queue, before, false, &mut sent),
            None => Ok(()),
        },
        Step::Last => match held.take() {
            Some(before) => hunk(queue, before, true, &mut sent),
            None => Ok(()),
        },
    })?;
    match held {
        Some(rest) => hunk(queue, rest, true, &mut sent),
        None => Ok(()),
    }
}

/// Sends a buffer; tries again while the firmware's signature check is not
/// ready for it.
fn hunk<P: Platform>(
    queue: &mut AdminQ<P>,
    buffer: &[u8],
    last: bool,
    sent: &mut u32,
) -> Result<()> {
    let mut left = HUNK_TRIES;
    loop {
        left = left.saturating_sub(1);
        let answer =
            queue.exchange(Opcode::DOWNLOAD_PACKAGE, download(last), Data::Send(buffer))?;
        if !answer.descriptor().failed() {
            *sent = sent.saturating_add(1);
            return Ok(());
        }
        let code = answer.descriptor().code();
        let again = matches!(code, Code::ENOSEC | Code::EBADSIG) && left > 0;
        if !again {
            let DownloadFailure { offset, detail } = DownloadFailure::decode(&answer);
            return Err(Error::PackageRefused {
                hunk: *sent,
                code,
                offset,
                detail,
            });
        }
        queue.platform().delay(HUNK_PAUSE);
    }
}

/// The VLAN mode; `None` when the firmware knows one tag only.
fn vlan_mode<P: Platform>(queue: &mut AdminQ<P>) -> Result<Option<VlanMode>> {
    match queue.execute(&GetVlanMode) {
        Ok(mode) => Ok(Some(mode)),
        Err(Error::Refused { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// One tag. Existing drivers try two first, for filters on the outer one, and
/// fall back to this; RDMA needs no second tag.
fn set_vlan_mode<P: Platform>(queue: &mut AdminQ<P>, swid: u16) -> Result<()> {
    if vlan_mode(queue)?.is_none() {
        return Ok(());
    }
    let set = queue
        .execute(&SetPortParameters {
            swid,
            double_vlan: false,
            local: LocalForwarding::Enabled,
        })
        .and_then(|()| queue.execute(&SetVlanMode::new(VlanMode::Single)));
    match set {
        // A package may lack what the firmware has; untagged RDMA works.
        Err(error @ Error::Refused { .. }) => {
            log_warn!("VLAN mode not set: {}", error);
            Ok(())
        }
        other => other,
    }
}
