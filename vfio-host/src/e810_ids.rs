//! The PCI ids of the E810's physical functions (control-path 1).

/// Intel's PCI vendor id.
pub const VENDOR: u16 = 0x8086;

/// Device ids and the names of the adapters that have them.
pub const IDS: &[(u16, &str)] = &[
    (0x1591, "E810-C for backplane"),
    (0x1592, "E810-C for QSFP"),
    (0x1593, "E810-C for SFP"),
    (0x1599, "E810-XXV for backplane"),
    (0x159A, "E810-XXV for QSFP"),
    (0x159B, "E810-XXV for SFP"),
];

/// The name of the adapter with this device id, or `None` when it is no E810.
#[must_use]
pub fn name(device: u16) -> Option<&'static str> {
    IDS.iter()
        .find(|(id, _)| *id == device)
        .map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_has_one_name() {
        for (place, (id, text)) in IDS.iter().enumerate() {
            assert_eq!(name(*id), Some(*text));
            assert!(!IDS[place + 1..].iter().any(|(other, _)| other == id));
        }
        assert_eq!(name(0x100E), None);
    }
}
