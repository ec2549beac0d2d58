//! The configuration space from a card's report.
//!
//! Its bytes are the card's; the capabilities in it determine which bytes software can write, as
//! PCI Express prescribes. What the host had set when the report was made (memory and master
//! enable, addresses, interrupts) starts at its reset value.

use e810_card::ConfigSpace as Recorded;

use super::{
    BAR_64_PREFETCHABLE, BAR0, BAR3, BAR3_LEN, COMMAND, ConfigSpace, LEN, PBA, Place, ROM,
};

/// Writable bits of capabilities: extended, id, offset, bits, and whether a function-level reset
/// keeps them.
const WRITABLE: &[(bool, u16, usize, &[u8], bool)] = &[
    // Power state.
    (false, 0x01, 4, &[3], false),
    // MSI: enable, address, data, mask.
    (false, 0x05, 2, &[1], false),
    (false, 0x05, 4, &[0xFC, 0xFF, 0xFF, 0xFF], false),
    (false, 0x05, 8, &[0xFF; 6], false),
    (false, 0x05, 0x10, &[1], false),
    // MSI-X: Function Mask and Enable.
    (false, 0x11, 3, &[0xC0], false),
    // VPD: address and data.
    (false, 0x03, 2, &[0xFF; 6], false),
    // Device control without the reset bit, link control, and their second registers.
    (false, 0x10, 8, &[0xFF, 0x75], false),
    (false, 0x10, 0x10, &[0xFB, 0x01], true),
    (false, 0x10, 0x28, &[0x1F], false),
    // Errors: masks and severities, ECRC.
    (true, 0x01, 8, &[0xFF; 8], true),
    (true, 0x01, 0x14, &[0xFF; 4], true),
    (true, 0x01, 0x18, &[0x40, 0x01], true),
    // TPH requester control.
    (true, 0x17, 8, &[0x07, 0x03], false),
];

impl ConfigSpace {
    /// Takes over the space of a card's function. What its bytes leave open, and where this server
    /// has the MSI-X table, is as in [`ConfigSpace::new`].
    pub(super) fn take_over(&mut self, bytes: &[u8], place: &Place) {
        let space = Recorded(
            bytes
                .iter()
                .copied()
                .chain(std::iter::repeat(0))
                .take(LEN)
                .collect(),
        );
        self.bytes = space.0.clone();
        // The header's own bits stay writable; those of the model's capabilities do not.
        for mask in [&mut self.writable, &mut self.sticky] {
            mask.iter_mut().skip(0x40).for_each(|bits| *bits = 0);
        }
        self.set(COMMAND, &[0, 0]);
        // Errors that were recorded.
        self.and(COMMAND + 3, 0x07);
        self.set(BAR0, &[0; 0x18]);
        self.set(BAR0, &BAR_64_PREFETCHABLE.to_le_bytes());
        self.set(BAR3, &BAR_64_PREFETCHABLE.to_le_bytes());
        self.set(ROM, &[0; 4]);
        self.device_control = None;
        self.vpd_at = None;
        let capabilities = space.capabilities();
        for capability in &capabilities {
            let at = usize::from(capability.at);
            // Bytes up to the next capability, or to the end of this part of the space: what a
            // damaged file has beyond that belongs to another one.
            let end = if capability.is_extended { LEN } else { 0x100 };
            let heads = capabilities.iter().map(|other| usize::from(other.at));
            let end = heads.filter(|other| *other > at).fold(end, usize::min);
            let room = end.saturating_sub(at);
            for (is_extended, id, offset, bits, stays) in WRITABLE {
                let is_its = (*is_extended, *id) == (capability.is_extended, capability.id);
                if !is_its || offset + bits.len() > room {
                    continue;
                }
                match stays {
                    true => self.allow_sticky(at + offset, bits),
                    false => self.allow(at + offset, bits),
                }
            }
            match (capability.is_extended, capability.id) {
                (false, 0x10) if room >= 10 => {
                    self.device_control = Some(at + 8);
                    // Max_Payload_Size survives a reset.
                    super::copy(&mut self.sticky, at + 8, &[0xE0]);
                }
                (false, 0x03) if room >= 8 => self.vpd_at = Some(at),
                (false, 0x11) if room >= 12 => self.msix_table(at, place),
                _ => {}
            }
        }
    }

    /// Size, table and pending bits as this server has them: except for the size, those of every
    /// card that was seen (field-evidence 1).
    fn msix_table(&mut self, at: usize, place: &Place) {
        const { assert!(PBA as u64 * 2 <= BAR3_LEN) };
        let size = place.vectors.clamp(1, 2048) - 1;
        self.set(at + 2, &size.to_le_bytes());
        self.set(at + 4, &3_u32.to_le_bytes());
        self.set(at + 8, &(PBA | 3).to_le_bytes());
    }

    fn and(&mut self, at: usize, mask: u8) {
        if let Some(byte) = self.bytes.get_mut(at) {
            *byte &= mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place() -> Place {
        Place {
            card: [2, 0, 0, 0, 0, 1],
            function: 0,
            functions: 1,
            vectors: 9,
        }
    }

    fn read(space: &ConfigSpace) -> Recorded {
        let mut bytes = vec![0; LEN];
        space.read(0, &mut bytes);
        Recorded(bytes)
    }

    #[test]
    fn what_the_card_says_is_there_and_what_the_host_set_is_not() {
        let model = ConfigSpace::new(&place());
        let mut bytes = read(&model).0;
        // Another revision and subsystem; memory, master and MSI-X on; a BAR's address.
        (bytes[8], bytes[0x2E]) = (3, 9);
        (bytes[4], bytes[0x13], bytes[0x73]) = (6, 0xE0, 0x80);
        let mut space = ConfigSpace::recorded(&place(), &bytes);
        let fixed = Recorded(bytes).without_settings();
        assert_eq!(read(&space).without_settings(), fixed);
        assert!(!space.memory_enabled() && !space.bus_master());
        assert_eq!(read(&space).u32(0x10), Some(0xC));
        // It works like the model's space: enabled, sized, reset.
        let _ = space.write(4, &[6]);
        assert!(space.memory_enabled() && space.bus_master());
        let _ = space.write(0x10, &[0xFF; 4]);
        assert_eq!(read(&space).u32(0x10), Some(0xFE00_000C));
        assert_eq!(space.write(0xA9, &[0x80]), super::super::Effect::Reset);
        space.reset();
        assert!(!space.memory_enabled());
    }

    /// A capability whose body would overlap another's header, or the extended part.
    #[test]
    fn a_capability_without_room_changes_no_other() {
        for vpd in [0xF8_u8, 0xFC] {
            let mut bytes = vec![0; LEN];
            bytes[6] = 0x10;
            bytes[0x34] = vpd;
            let at = usize::from(vpd);
            bytes[at..at + 2].copy_from_slice(&[0x03, if vpd == 0xFC { 0 } else { 0xFC }]);
            bytes[0xFC] |= u8::from(vpd != 0xFC);
            bytes[0x100..0x104].copy_from_slice(&[0x01, 0, 0x01, 0]);
            let mut space = ConfigSpace::recorded(&place(), &bytes);
            let before = read(&space).capabilities();
            for at in (0x40..0x104_u64).step_by(4) {
                let _ = space.write(at, &[0xFF; 4]);
            }
            assert_eq!(read(&space).capabilities(), before, "{vpd:#x}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_space_that_stays_what_it_is(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..5000),
            writes in proptest::collection::vec((0..4096_u64, any::<[u8; 4]>()), 0..32),
        ) {
            if let Some(status) = bytes.get_mut(6) {
                *status |= 0x10;
            }
            let mut space = ConfigSpace::recorded(&place(), &bytes);
            let before = read(&space);
            for (at, value) in writes {
                let _ = space.write(at, &value);
            }
            prop_assert_eq!(read(&space).u32(0), before.u32(0));
            prop_assert_eq!(read(&space).capabilities(), before.capabilities());
            space.power_up();
            prop_assert_eq!(read(&space), before);
        }
    }
}
