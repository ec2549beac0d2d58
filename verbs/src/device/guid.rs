//! GUIDs, without a bring-up where that is possible.

use std::sync::TryLockError;

use e810_backends::host::{Host, identity};
use e810_backends::spec::DeviceSpec;

use super::ListedDevice;
use super::words::Named;
use crate::control::QueryDevice;
use crate::errno::NotOpened;

impl ListedDevice {
    /// The GUID of the node, as [`query_device`](crate::query::device::query_device) reports it.
    ///
    /// It is made from the function's Ethernet address. A simulated function's address is chosen
    /// when it is listed. A card's is known before a bring-up where [its configuration space has
    /// it](identity::mac). Every other function is brought up.
    ///
    /// # Errors
    /// Why the bring-up failed.
    pub(super) fn guid(&self) -> Result<u64, NotOpened> {
        let up = match self.up.try_lock() {
            Ok(up) => up.as_ref().and_then(|up| up.control.upgrade()),
            Err(TryLockError::Poisoned(up)) => {
                up.into_inner().as_ref().and_then(|up| up.control.upgrade())
            }
            // It is being brought up.
            Err(TryLockError::WouldBlock) => None,
        };
        let control = match (up, self.known_mac()) {
            (Some(control), _) => control,
            (None, Some(mac)) => return Ok(eui64(mac)),
            (None, None) => self.control(true)?,
        };
        let attr = control.ask(QueryDevice {});
        attr.map(|attr| attr.node_guid)
            .map_err(|refused| NotOpened {
                why: refused.to_string(),
                errno: refused.errno,
            })
    }

    fn known_mac(&self) -> Option<[u8; 6]> {
        let Named::Own(opening) = &self.named else {
            return None;
        };
        match &opening.spec {
            DeviceSpec::Sim(sim) => sim.mac,
            DeviceSpec::Vfio(bdf, _) => identity::mac(&Host::default(), *bdf),
            DeviceSpec::VfioUser(_) => None,
        }
    }
}

/// The modified EUI-64 of an Ethernet address, the lower half of its link-local address.
fn eui64([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

#[cfg(test)]
mod tests {
    use crate::control::QueryDevice;
    use crate::device::choice::tests::listed;

    #[test]
    fn it_is_the_same_before_and_after_the_function_is_up() {
        for text in ["sim", "sim:mac=02:00:00:00:01:00"] {
            let device = listed(text);
            let before = device.guid().unwrap();
            assert!(device.up.lock().unwrap().is_none(), "brought up");
            let up = device.control(true).unwrap();
            assert_eq!(up.ask(QueryDevice {}).unwrap().node_guid, before);
            assert_eq!(device.guid().unwrap(), before);
        }
    }
}
