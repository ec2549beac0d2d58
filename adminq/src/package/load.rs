//! Downloads a package to the card (control-path 9.10).

use e810_hal::bus::Index;
use e810_hal::regs::{
    GL_PREEXT_L2_PMASK0, GL_PREEXT_L2_PMASK1, SWITCH_BLOCK, SWITCH_INPUT_HIGH, SWITCH_INPUT_LOW,
};
use e810_hal::{Bus, Platform, log_info, log_warn};

use super::{Package, Step, Version};
use crate::code::Code;
use crate::error::{Error, Result, UNTIL_CORE_RESET};
use crate::limits::{GLOBAL_LOCK_MS, HUNK_PAUSE, HUNK_TRIES};
use crate::lock::with_lock;
use crate::op::{
    Data, DownloadFailure, GetPackageInfo, GetVlanMode, LocalForwarding, Resource,
    SetPortParameters, SetVlanMode, VlanMode, download,
};
use crate::opcode::Opcode;
use crate::queue::AdminQ;

/// Who loaded the active package.
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
    /// Who loaded it.
    pub by: LoadedBy,
    /// Its version.
    pub version: Version,
    /// How many VLAN tags the card knows with it.
    pub vlan: VlanMode,
}

/// Why a package was not loaded, and what that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[error(
    "{error}{}{}",
    if *lock_is_used_up { "; with this " } else { "" },
    if *lock_is_used_up { UNTIL_CORE_RESET } else { "" }
)]
pub struct LoadFailed {
    /// What went wrong.
    pub error: Error,
    /// We had the global configuration lock and the download is not complete: no function of the
    /// card can load a package before a core reset ([`reset_card`](crate::reset::reset_card)).
    pub lock_is_used_up: bool,
}

impl From<Error> for LoadFailed {
    /// Before the lock.
    fn from(error: Error) -> Self {
        Self {
            error,
            lock_is_used_up: false,
        }
    }
}

/// Loads `package`, unless another function has loaded one; without a package (`None`) only
/// checks whether one has.
///
/// Only one function of a card can do this after a core reset of the card. The global
/// configuration lock is granted once, and giving it back says that the configuration is done,
/// whatever its outcome (field-evidence 3.4, 3.5). While the lock is held the VLAN mode is set
/// too, which tells the RDMA engine where the tag of its frames is.
///
/// # Errors
/// [`Error::NoPackage`], [`Error::ConfiguredWithoutPackage`],
/// [`Error::FirmwareTooOld`], [`Error::ActivePackage`],
/// [`Error::PackageRefused`], [`Error::Locked`], and those of the commands, with
/// what became of the lock.
pub fn load<P: Platform>(
    queue: &mut AdminQ<P>,
    package: Option<&Package<'_>>,
    swid: u16,
) -> Result<Loaded, LoadFailed> {
    // The firmware counts the card's configuration as done.
    let mut configured = false;
    let by = match package {
        None => LoadedBy::AnotherFunction,
        Some(package) => {
            if !package.has_rdma() {
                log_warn!("the package holds no packet profiles for RDMA");
            }
            check_firmware(queue, package)?;
            let mut incomplete = false;
            let done = with_lock(queue, Resource::GLOBAL_CONFIG, GLOBAL_LOCK_MS, |queue| {
                incomplete = true;
                send(queue, package)?;
                incomplete = false;
                set_vlan_mode(queue, swid)
            });
            let done = done.map_err(|error| LoadFailed {
                error,
                lock_is_used_up: incomplete,
            })?;
            configured = true;
            match done {
                Some(()) => LoadedBy::Us,
                None => LoadedBy::AnotherFunction,
            }
        }
    };
    let vlan = vlan_mode(queue)?.unwrap_or_default();
    let version = match active(queue) {
        Err(Error::NoPackage) if configured => Err(Error::ConfiguredWithoutPackage),
        other => other,
    }?;
    open_switch(queue.platform());
    log_info!("DDP package {}", version);
    Ok(Loaded { by, version, vlan })
}

/// Lets the switch block see its whole input. Existing drivers do so in every state in which a
/// package is active, also if another function has loaded it (`ice/ice_ddp.c ice_init_pkg_regs`).
/// The value after a reset is not in the sources; without the mask no switch rule matches
/// `[inf switch_mask_hides]`.
fn open_switch<B: Bus>(bus: &B) {
    if let Some(switch) = Index::new(SWITCH_BLOCK) {
        GL_PREEXT_L2_PMASK0.at(switch).set(bus, SWITCH_INPUT_LOW);
        GL_PREEXT_L2_PMASK1.at(switch).set(bus, SWITCH_INPUT_HIGH);
    }
}

/// The NVM's package tells which format the firmware knows. Like existing drivers, this does not
/// refuse a list without one.
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

/// The active package. One that lies in the NVM is what the card boots with, and does not count:
/// existing drivers stay in safe mode with it.
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

/// Sends all buffers. A buffer is known to be the last only when no other follows, so each is
/// sent one step late.
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

/// The VLAN mode; `None` if the firmware knows only one tag.
fn vlan_mode<P: Platform>(queue: &mut AdminQ<P>) -> Result<Option<VlanMode>> {
    match queue.execute(&GetVlanMode) {
        Ok(mode) => Ok(Some(mode)),
        Err(Error::Refused { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets one tag. Existing drivers first try two, for filters on the outer one, and fall back to
/// this; RDMA needs no second tag.
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
