//! PCI ids of the E810 (control-path 1.1).

/// Intel.
pub const VENDOR: u16 = 0x8086;
/// Class and subclass of an Ethernet controller (PCI Code and ID Assignment).
const ETHERNET: u16 = 0x0200;
/// Every adaptive virtual function from Intel, including the E810's.
const VIRTUAL_FUNCTION: u16 = 0x1889;

/// Device ids whose RDMA engine this driver knows, and what Intel calls them.
///
/// Virtual functions (0x1889) are not among them: their engine is reached
/// through the physical function's driver.
pub const DEVICES: [(u16, &str); 6] = [
    (0x1591, "E810-C for backplane"),
    (0x1592, "E810-C for QSFP"),
    (0x1593, "E810-C for SFP"),
    (0x1599, "E810-XXV for backplane"),
    (0x159a, "E810-XXV for QSFP"),
    (0x159b, "E810-XXV for SFP"),
];

/// The name of an E810 function, or `None` for anything else.
#[must_use]
pub fn name(vendor: u16, device: u16) -> Option<&'static str> {
    let known = DEVICES.iter().find(|(id, _)| *id == device);
    known.filter(|_| vendor == VENDOR).map(|(_, name)| *name)
}

/// The ids of a PCI function, from the beginning of its configuration space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PciIds {
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Class and subclass, `0x0200` for Ethernet.
    pub class: u16,
}

impl PciIds {
    /// Bytes of configuration space that have the ids.
    pub const LEN: usize = 12;

    /// The ids in the first bytes of configuration space (PCI 3.0, 6.1).
    #[must_use]
    pub const fn of_config(space: [u8; Self::LEN]) -> Self {
        let [v0, v1, d0, d1, _, _, _, _, _, _, subclass, class] = space;
        Self {
            vendor: u16::from_le_bytes([v0, v1]),
            device: u16::from_le_bytes([d0, d1]),
            class: u16::from_le_bytes([subclass, class]),
        }
    }

    /// The name of the adapter, or `None` when this is no physical function of an E810.
    #[must_use]
    pub fn adapter(self) -> Option<&'static str> {
        name(self.vendor, self.device)
    }

    /// Whether this may be a physical function of an E810 whose id is not known here: an Ethernet
    /// controller from Intel that is not a virtual function.
    #[must_use]
    pub fn is_intel_ethernet(self) -> bool {
        self.vendor == VENDOR && self.class == ETHERNET && self.device != VIRTUAL_FUNCTION
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_at_the_beginning_of_configuration_space() {
        let space = [0x86, 0x80, 0x92, 0x15, 6, 4, 0x10, 0, 2, 0x77, 0x00, 0x02];
        let ids = PciIds::of_config(space);
        let expected = PciIds {
            vendor: 0x8086,
            device: 0x1592,
            class: 0x0200,
        };
        assert_eq!(ids, expected);
        assert_eq!(ids.adapter(), Some("E810-C for QSFP"));
    }

    #[test]
    fn only_an_ethernet_controller_of_intels_may_be_an_e810_that_is_not_known() {
        for (vendor, device, class, expected) in [
            (0x8086, 0x12d1, 0x0200, true),
            // A virtual function; a disk; InfiniBand; another vendor; nothing there.
            (0x8086, 0x1889, 0x0200, false),
            (0x8086, 0x0a54, 0x0108, false),
            (0x8086, 0x24f0, 0x0207, false),
            (0x15b3, 0x1017, 0x0200, false),
            (0xffff, 0xffff, 0xffff, false),
        ] {
            let ids = PciIds {
                vendor,
                device,
                class,
            };
            assert_eq!(ids.is_intel_ethernet(), expected, "{ids:x?}");
            assert_eq!(ids.adapter(), None, "{ids:x?}");
        }
    }

    #[test]
    fn only_e810_physical_functions_have_a_name() {
        assert_eq!(name(0x8086, 0x1592), Some("E810-C for QSFP"));
        // X710, the E810's virtual function, another vendor.
        for (vendor, device) in [(0x8086, 0x1572), (0x8086, 0x1889), (0x15b3, 0x1592)] {
            assert_eq!(name(vendor, device), None);
        }
    }
}
