//! Identity of the function.

use e810_adminq::op::{Capabilities, SwitchPort};
use e810_lan::{MAX_MTU, MIN_MTU};
use e810_types::MacAddr;

use crate::error::{Error, Result};

/// What the firmware says about the function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Capabilities of the device.
    pub device: Capabilities,
    /// Capabilities of the function.
    pub function: Capabilities,
    /// Its port.
    pub port: SwitchPort,
    /// Its MAC address, first octet first.
    pub mac: MacAddr,
}

/// Greatest MTU that a function takes; 0 if the list has no such capability.
pub(crate) fn max_mtu(function: &Capabilities) -> u16 {
    match u16::try_from(function.max_mtu) {
        Ok(0) | Err(_) => MAX_MTU,
        Ok(most) => most.min(MAX_MTU),
    }
}

/// Refuses an MTU above `most`, or one too small for IPv4.
pub(crate) fn check_mtu(what: &'static str, mtu: u16, most: u16) -> Result<()> {
    if (MIN_MTU..=most).contains(&mtu) {
        return Ok(());
    }
    Err(Error::OutOfRange {
        what,
        value: mtu.into(),
        min: MIN_MTU.into(),
        max: most.into(),
    })
}
