//! Resets, and the waits after them (control-path 9.2, 10).
//!
//! A PF reset clears the engine's registers of this function and what the firmware holds for it;
//! it leaves the AdminQ's registers alone (control-path 9.1: reset source EMPR). CORER and GLOBR
//! reset all functions of the card. An EMPR, the reset of the firmware itself, is started by
//! firmware updates and not by a PF's driver; if one is running, the driver waits for it.

use e810_hal::clock::live;
use e810_hal::regs::{
    FWSM_RECOVERY, GL_MNG_FWSM, GLGEN_RSTAT, GLGEN_RSTCTL, GLGEN_RTRIG, GLNVM_ULD, GRSTDEL_UNIT_MS,
    PFGEN_CTRL, ULD_DONE, ULD_DONE_RDMA,
};
use e810_hal::{Bus, Clock, Ns, WaitError, log_info, poll_until};

use crate::error::{Error, Result};
use crate::limits::{
    FIRMWARE_LIMIT, GLOBAL_RESET_EXTRA, GLOBAL_RESET_PAUSE, PF_RESET_LIMIT, PF_RESET_PAUSE,
    UNITS_LIMIT, UNITS_PAUSE,
};

/// A reset of all functions of the card that a PF may start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum GlobalReset {
    /// CORER: the core, without the link.
    Core,
    /// GLOBR: the core and the ports.
    Global,
}

/// The kind of reset that took place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ResetDone {
    /// The function was reset.
    Function,
    /// A reset of all functions was running; it has ended, and has reset this function too.
    Global,
}

/// Resets this function. If a reset of the whole card is running, waits for that one instead,
/// because a PF reset on top of it is not allowed (control-path 9.2, row "Entry check").
///
/// `rdma`: the function is known to be capable of RDMA, so this also waits for the engine's unit.
///
/// # Errors
/// [`Error::Wait`] at the limit, or when the device is gone.
pub fn reset_function<P: Bus + Clock>(platform: &P, rdma: bool) -> Result<ResetDone> {
    if global_reset_running(platform)? {
        wait_for_card(platform, rdma)?;
        log_info!("a reset of the whole card had been running");
        return Ok(ResetDone::Global);
    }
    let label = "PF reset";
    PFGEN_CTRL.write(platform, PFGEN_CTRL::PFSWR::SET);
    // The full 5.3 s. Existing drivers test their counter against 300 of the 5300 turns, and so
    // report neither a time-out nor a reset that ends after that.
    poll_until(platform, label, PF_RESET_LIMIT, PF_RESET_PAUSE, || {
        let control = PFGEN_CTRL.read(platform);
        live(label, control.get())?;
        Ok::<_, WaitError>((!control.is_set(PFGEN_CTRL::PFSWR)).then_some(()))
    })?;
    log_info!("the function was reset");
    Ok(ResetDone::Function)
}

/// Resets all functions of the card and waits for the end: at most
/// (GRSTDEL + 11) × 100 ms for the card, and 5 s for its units.
///
/// The state is first polled 100 ms after the request, as in existing drivers: it need not show
/// the reset at once.
///
/// # Errors
/// [`Error::Wait`] at the limit, or when the device is gone.
pub fn reset_card<P: Bus + Clock>(platform: &P, reset: GlobalReset, rdma: bool) -> Result<()> {
    GLGEN_RTRIG.write(
        platform,
        match reset {
            GlobalReset::Core => GLGEN_RTRIG::CORER::SET,
            GlobalReset::Global => GLGEN_RTRIG::GLOBR::SET,
        },
    );
    platform.delay(GLOBAL_RESET_PAUSE);
    wait_for_card(platform, rdma)?;
    log_info!("the card was reset");
    Ok(())
}

/// Whether a reset of the whole card is running.
///
/// # Errors
/// [`Error::Wait`] when the device is gone.
pub fn global_reset_running<P: Bus + Clock>(platform: &P) -> Result<bool> {
    let state = GLGEN_RSTAT.read(platform);
    live("GLGEN_RSTAT", state.get())?;
    let units = live("GLNVM_ULD", GLNVM_ULD.get(platform))?;
    Ok(state.read(GLGEN_RSTAT::DEVSTATE) != 0 || units & ULD_DONE != ULD_DONE)
}

/// Waits for the end of a reset of the whole card, no matter which function started it.
///
/// # Errors
/// [`Error::Wait`] at the limit, or when the device is gone.
pub fn wait_for_card<P: Bus + Clock>(platform: &P, rdma: bool) -> Result<()> {
    let control = GLGEN_RSTCTL.read(platform);
    live("GLGEN_RSTCTL", control.get())?;
    let delay = u64::from(control.read(GLGEN_RSTCTL::GRSTDEL));
    let turns = delay.saturating_add(GLOBAL_RESET_EXTRA);
    let limit = Ns::from_ms(turns.saturating_mul(u64::from(GRSTDEL_UNIT_MS)));
    let label = "reset of the card";
    poll_until(platform, label, limit, GLOBAL_RESET_PAUSE, || {
        let state = GLGEN_RSTAT.read(platform);
        live(label, state.get())?;
        Ok::<_, WaitError>((state.read(GLGEN_RSTAT::DEVSTATE) == 0).then_some(()))
    })?;
    let done = if rdma { ULD_DONE_RDMA } else { ULD_DONE };
    let label = "units of the card after its reset";
    poll_until(platform, label, UNITS_LIMIT, UNITS_PAUSE, || {
        let units = live(label, GLNVM_ULD.get(platform))?;
        Ok::<_, WaitError>((units & done == done).then_some(()))
    })?;
    Ok(())
}

/// Refuses firmware in recovery mode, which only serves to be replaced.
///
/// # Errors
/// [`Error::RecoveryMode`]; [`Error::Wait`] when the device is gone.
pub fn check_recovery<P: Bus>(platform: &P) -> Result<()> {
    match live("GL_MNG_FWSM", GL_MNG_FWSM.get(platform))? {
        fwsm if fwsm & FWSM_RECOVERY != 0 => Err(Error::RecoveryMode { fwsm }),
        _ => Ok(()),
    }
}

/// Waits until the firmware has loaded.
///
/// # Errors
/// [`Error::RecoveryMode`]; [`Error::Wait`] after 30 s, or when the device is
/// gone.
pub fn wait_for_firmware<P: Bus + Clock>(platform: &P) -> Result<()> {
    let label = "firmware load";
    poll_until(platform, label, FIRMWARE_LIMIT, UNITS_PAUSE, || {
        let state = GL_MNG_FWSM.read(platform);
        let fwsm = live(label, state.get())?;
        if fwsm & FWSM_RECOVERY != 0 {
            return Err(Error::RecoveryMode { fwsm });
        }
        Ok((!state.is_set(GL_MNG_FWSM::FW_LOADING)).then_some(()))
    })
}
