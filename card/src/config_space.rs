//! Configuration space: what its bytes say.

use crate::record::{from_hex, hex};

/// Configuration space as read: 64 bytes by an ordinary user, 256 or 4096 otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigSpace(pub Vec<u8>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capability {
    /// Offset of its first byte.
    pub at: u16,
    /// Its id; ids of extended capabilities are another list.
    pub id: u16,
    /// It is in the extended part, from 0x100 on.
    pub is_extended: bool,
}

/// Names of capabilities (PCI Express Base Specification, as in Linux' `pci_regs.h`).
const NAMES: &[(u16, &str)] = &[
    (0x01, "power management"),
    (0x03, "vital product data"),
    (0x05, "MSI"),
    (0x10, "PCI Express"),
    (0x11, "MSI-X"),
];
const EXTENDED_NAMES: &[(u16, &str)] = &[
    (0x01, "advanced error reporting"),
    (SERIAL, "serial number"),
    (0x0D, "access control services"),
    (0x0E, "alternative routing-ID"),
    (0x10, "single-root I/O virtualization"),
    (0x17, "TPH requester"),
    (0x18, "latency tolerance reporting"),
    (0x19, "secondary PCI Express"),
    (0x25, "data link feature"),
    (0x26, "physical layer 16 GT/s"),
    (0x27, "lane margining"),
];
/// Id of the capability with the serial number.
const SERIAL: u16 = 0x03;
/// Id of the PCI Express capability.
const EXPRESS: u16 = 0x10;
/// Id of the MSI-X capability.
const MSIX: u16 = 0x11;

/// What software sets in the header, and errors that were seen: offset, bytes.
const HEADER_SETTINGS: &[(u16, u16)] = &[
    // Command and status; the status bit of the list of capabilities is in its low byte.
    (0x04, 2),
    (0x07, 1),
    // Cache line size and latency timer.
    (0x0C, 2),
    // BARs and expansion ROM.
    (0x10, 0x18),
    (0x30, 4),
    // Interrupt line.
    (0x3C, 1),
];
/// The same of capabilities: extended, id, offset, bytes (PCI Express Base Specification, as
/// in Linux' `pci_regs.h`).
const SETTINGS: &[(bool, u16, u16, u16)] = &[
    // Power state and PME.
    (false, 0x01, 4, 2),
    // Address and data of the VPD.
    (false, 0x03, 2, 6),
    // MSI: control, address, data, masks, pending.
    (false, 0x05, 2, 0x16),
    // Device control and status, link control, and the second ones of each; the status of
    // the link stays.
    (false, EXPRESS, 0x08, 4),
    (false, EXPRESS, 0x10, 2),
    (false, EXPRESS, 0x28, 4),
    (false, EXPRESS, 0x30, 4),
    // Errors: status, masks, severities, control, the header of the first one.
    (true, 0x01, 4, 0x28),
    // TPH control.
    (true, 0x17, 8, 4),
];

impl Capability {
    /// Its name; of one without a name its number.
    #[must_use]
    pub fn name(&self) -> String {
        let names = if self.is_extended {
            EXTENDED_NAMES
        } else {
            NAMES
        };
        let found = names.iter().find(|(id, _)| *id == self.id);
        found.map_or_else(
            || format!("capability {:#04x}", self.id),
            |(_, name)| (*name).to_owned(),
        )
    }
}

impl ConfigSpace {
    /// From the digits of a report.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn from_hex(text: &str) -> Result<Self, String> {
        match from_hex(text) {
            Some(bytes) if bytes.len() <= 4096 => Ok(Self(bytes)),
            _ => Err("configuration space: not hexadecimal, or more than 4096 bytes".to_owned()),
        }
    }

    /// As digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }

    fn u8(&self, at: u16) -> Option<u8> {
        self.0.get(usize::from(at)).copied()
    }

    /// Two bytes, little-endian; `None` past the end.
    #[must_use]
    pub fn u16(&self, at: u16) -> Option<u16> {
        Some(u16::from_le_bytes([
            self.u8(at)?,
            self.u8(at.checked_add(1)?)?,
        ]))
    }

    /// Four bytes, little-endian; `None` past the end.
    #[must_use]
    pub fn u32(&self, at: u16) -> Option<u32> {
        let high = self.u16(at.checked_add(2)?)?;
        Some(u32::from(self.u16(at)?) | u32::from(high) << 16)
    }

    /// The capabilities in the order of their lists. A list that loops ends.
    #[must_use]
    pub fn capabilities(&self) -> Vec<Capability> {
        let mut found: Vec<Capability> = Vec::new();
        let mut next = self.u8(0x34).map(|at| u16::from(at & !3));
        // Bit 4 of the status register: there is a list.
        if self.u16(6).is_none_or(|status| status & 1 << 4 == 0) {
            next = None;
        }
        while let Some(at) = next.filter(|at| *at >= 0x40 && found.len() < 48) {
            let Some(word) = self.u16(at) else { break };
            found.push(Capability {
                at,
                id: word & 0xFF,
                is_extended: false,
            });
            next = Some(word >> 8 & !3);
        }
        let (mut at, mut left) = (0x100, 64);
        while let Some(word) = self.u32(at).filter(|word| *word != 0 && *word != u32::MAX) {
            let id = word as u16;
            found.push(Capability {
                at,
                id,
                is_extended: true,
            });
            at = (word >> 20) as u16 & !3;
            left -= 1;
            if at < 0x100 || left == 0 {
                break;
            }
        }
        found
    }

    /// The capability with this id in this part.
    #[must_use]
    pub fn find(&self, id: u16, is_extended: bool) -> Option<Capability> {
        let all = self.capabilities();
        all.into_iter()
            .find(|capability| (capability.id, capability.is_extended) == (id, is_extended))
    }

    /// With the serial number replaced by zeros.
    #[must_use]
    pub fn without_serial(mut self) -> Self {
        if let Some(serial) = self.find(SERIAL, true) {
            let at = usize::from(serial.at);
            if let Some(number) = self.0.get_mut(at + 4..at + 12) {
                number.fill(0);
            }
        }
        self
    }

    /// With zeros for what software sets (command, BARs, addresses of interrupts, sizes in
    /// use, error reporting) and for what happened to the function: what is left is what
    /// the card says of itself.
    #[must_use]
    pub fn without_settings(mut self) -> Self {
        let mut set: Vec<(u16, u16)> = HEADER_SETTINGS.to_vec();
        for capability in self.capabilities() {
            let found = SETTINGS.iter().filter(|(is_extended, id, ..)| {
                (capability.is_extended, capability.id) == (*is_extended, *id)
            });
            set.extend(
                found.map(|(_, _, offset, len)| (capability.at.saturating_add(*offset), *len)),
            );
        }
        for (at, len) in set {
            let bytes = self.0.iter_mut().skip(at.into()).take(len.into());
            bytes.for_each(|byte| *byte = 0);
        }
        // Enable and Function Mask, beside the size of the table.
        if let Some(msix) = self.find(MSIX, false)
            && let Some(high) = self.0.get_mut(usize::from(msix.at) + 3)
        {
            *high &= 0x3F;
        }
        self
    }

    /// Vectors of the MSI-X table, 1 to 2048.
    #[must_use]
    pub fn msix_vectors(&self) -> Option<u16> {
        let msix = self.find(MSIX, false)?.at;
        Some((self.u16(msix.checked_add(2)?)? & 0x7FF) + 1)
    }

    /// Payload and read request sizes in use, in bytes, and the greatest payload that the
    /// function has (PCI Express capability, offsets 4 and 8).
    #[must_use]
    pub fn sizes(&self) -> Option<[u32; 3]> {
        let express = self.find(EXPRESS, false)?.at;
        let (able, control) = (self.u32(express + 4)?, self.u16(express + 8)?);
        let bytes = |code: u32| 128 << (code & 7);
        let control = u32::from(control);
        Some([bytes(control >> 5), bytes(control >> 12), bytes(able)])
    }

    /// Whether the function can be reset alone (FLR, bit 28 of the device capabilities).
    #[must_use]
    pub fn has_flr(&self) -> Option<bool> {
        let express = self.find(EXPRESS, false)?.at;
        Some(self.u32(express + 4)? & 1 << 28 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn space() -> ConfigSpace {
        let mut bytes = vec![0; 4096];
        bytes[6] = 0x10;
        bytes[0x34] = 0x40;
        bytes[0x40..0x44].copy_from_slice(&[0x01, 0xA0, 0, 0]);
        bytes[0xA0..0xA4].copy_from_slice(&[0x10, 0x00, 2, 0]);
        // Payload 512 possible, FLR; payload 256, read request 4096 in use.
        bytes[0xA4..0xA8].copy_from_slice(&0x1000_0002_u32.to_le_bytes());
        bytes[0xA8..0xAA].copy_from_slice(&0x5020_u16.to_le_bytes());
        bytes[0x100..0x104].copy_from_slice(&0x1501_0001_u32.to_le_bytes());
        bytes[0x150..0x154].copy_from_slice(&0x0001_0003_u32.to_le_bytes());
        bytes[0x154..0x15C].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        ConfigSpace(bytes)
    }

    #[test]
    fn capabilities_are_walked() {
        let names: Vec<String> = space()
            .capabilities()
            .iter()
            .map(Capability::name)
            .collect();
        let expected = [
            "power management",
            "PCI Express",
            "advanced error reporting",
            "serial number",
        ];
        assert_eq!(names, expected);
        assert_eq!(space().sizes(), Some([256, 4096, 512]));
        assert_eq!(space().has_flr(), Some(true));
        let fixed = space().without_settings();
        assert_eq!(fixed.capabilities(), space().capabilities());
        assert_eq!(
            (fixed.u32(0xA4), fixed.u32(0xA8)),
            (Some(0x1000_0002), Some(0))
        );
        let clean = space().without_serial();
        assert_eq!(clean.0[0x154..0x15C], [0; 8]);
        assert_eq!(ConfigSpace::from_hex(&clean.to_hex()), Ok(clean));
        assert!(ConfigSpace::from_hex("0g").is_err() && ConfigSpace::from_hex("012").is_err());
    }

    #[test]
    fn what_an_ordinary_user_sees_is_short() {
        let short = ConfigSpace(space().0[..64].to_vec());
        assert_eq!(short.capabilities(), []);
        assert_eq!(short.sizes(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked(mut bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Some(status) = bytes.get_mut(6) {
                *status |= 0x10;
            }
            let space = ConfigSpace(bytes);
            prop_assert!(space.capabilities().len() <= 48 + 64);
            let _ = (space.sizes(), space.has_flr(), space.clone().without_serial());
            let _ = (space.msix_vectors(), space.without_settings());
        }
    }
}
