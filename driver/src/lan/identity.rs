//! Identity of the function.

use e810_adminq::op::{Capabilities, SwitchPort};
use e810_types::MacAddr;

/// What the firmware says of the function.
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
