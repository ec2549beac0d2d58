//! The check that a function is an E810: made before a register is read, before a reset, and before
//! a driver is bound to it.

use e810_hal::pci_ids::PciIds;

use crate::error::BackendError;

/// Which functions may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Accept {
    /// Physical functions of an E810, by their ids.
    #[default]
    E810,
    /// Also an Intel Ethernet controller whose id is unknown and which is no virtual function: for
    /// an E810 that is newer than this program. The caller is responsible for the choice: registers
    /// of another card have other meanings.
    IntelEthernet,
}

impl Accept {
    /// The name of a function with the ids `ids`; errors call it `device`.
    ///
    /// # Errors
    /// [`BackendError::NotE810`]; [`BackendError::Unfit`] for ids that read as ones.
    pub fn check(self, device: &str, ids: PciIds) -> Result<&'static str, BackendError> {
        if ids.vendor == u16::MAX {
            return Err(BackendError::Unfit {
                device: device.to_owned(),
                what: "its configuration space reads as ones: it has no power, or is gone"
                    .to_owned(),
            });
        }
        let unknown = self == Self::IntelEthernet && ids.is_intel_ethernet();
        let name = ids
            .adapter()
            .or(unknown.then_some("Intel Ethernet, an unknown id"));
        name.ok_or_else(|| BackendError::NotE810 {
            device: device.to_owned(),
            vendor: ids.vendor,
            id: ids.device,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_an_e810_is_accepted_unless_it_is_asked_for() {
        for (vendor, device, class, e810, asked_for) in [
            (0x8086, 0x1592, 0x0200, true, true),
            (0x8086, 0x159b, 0x0200, true, true),
            // An E830, an X710, and functions that are no Intel Ethernet controllers.
            (0x8086, 0x12d2, 0x0200, false, true),
            (0x8086, 0x1572, 0x0200, false, true),
            (0x8086, 0x1889, 0x0200, false, false),
            (0x8086, 0x0a54, 0x0108, false, false),
            (0x10de, 0x2204, 0x0300, false, false),
            (0x15b3, 0x1592, 0x0200, false, false),
            (0xffff, 0xffff, 0xffff, false, false),
        ] {
            let ids = PciIds {
                vendor,
                device,
                class,
            };
            for (accept, expected) in [(Accept::E810, e810), (Accept::IntelEthernet, asked_for)] {
                let checked = accept.check("3b:00.0", ids);
                assert_eq!(checked.is_ok(), expected, "{accept:?} {ids:x?}");
            }
        }
    }
}
