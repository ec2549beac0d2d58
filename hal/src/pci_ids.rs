//! PCI ids of the E810 (control-path 1.1).

/// Intel.
pub const VENDOR: u16 = 0x8086;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_e810_physical_functions_have_a_name() {
        assert_eq!(name(0x8086, 0x1592), Some("E810-C for QSFP"));
        // X710, the E810's virtual function, another vendor.
        for (vendor, device) in [(0x8086, 0x1572), (0x8086, 0x1889), (0x15b3, 0x1592)] {
            assert_eq!(name(vendor, device), None);
        }
    }
}
