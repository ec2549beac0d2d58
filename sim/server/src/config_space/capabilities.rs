//! The capabilities, with the offsets and contents of the published dumps of cards
//! (field-evidence 1). What the dumps do not show is 0, or the value that PCI Express prescribes.

use super::{BAR3_LEN, ConfigSpace, PBA, Place};

/// Power management.
pub(super) const PM: usize = 0x40;
const MSI: usize = 0x50;
const MSIX: usize = 0x70;
const EXPRESS: usize = 0xa0;
/// Device control, with the bit that starts a function-level reset.
pub(super) const DEVICE_CONTROL: usize = EXPRESS + 8;
pub(super) const VPD: usize = 0xe0;
/// Offsets of address and data in the capability.
const VPD_ADDRESS: usize = 2;
const VPD_DATA: usize = 4;

const AER: usize = 0x100;
const ARI: usize = 0x148;
const SERIAL: usize = 0x150;
const TPH: usize = 0x1a0;
const ACS: usize = 0x1b0;
/// Extended capabilities whose contents the dumps do not show: id and offset.
const EMPTY: [(u16, usize); 4] = [(0x19, 0x1d0), (0x25, 0x200), (0x26, 0x210), (0x27, 0x250)];

/// 16 lanes at 16 GT/s, as in LnkCap and LnkSta.
const LINK: u16 = 0x104;

const _: () = assert!(
    PBA as u64 * 2 <= BAR3_LEN,
    "2048 entries of 16 bytes before it"
);

impl ConfigSpace {
    pub(super) fn capabilities(&mut self, place: &Place) {
        // Version 3, device-specific initialisation.
        self.capability(PM, 1, MSI, 3 | 1 << 5);
        // D0 and D3hot, no soft reset, Data_Scale 1.
        self.set(PM + 4, &(1_u16 << 3 | 1 << 13).to_le_bytes());
        self.allow(PM + 4, &[3]);
        // One vector, 64-bit, maskable. Its messages are not delivered.
        self.capability(MSI, 5, MSIX, 1 << 7 | 1 << 8);
        self.allow(MSI + 2, &[1]);
        self.allow(MSI + 4, &(!3_u32).to_le_bytes());
        self.allow(MSI + 8, &[0xff; 6]);
        self.allow(MSI + 0x10, &[1]);
        // Table Size is one less; Enable [15] and Function Mask [14].
        self.capability(MSIX, 0x11, EXPRESS, place.vectors.clamp(1, 2048) - 1);
        self.allow(MSIX + 2, &0xc000_u16.to_le_bytes());
        // BIR 3 for both.
        self.set(MSIX + 4, &3_u32.to_le_bytes());
        self.set(MSIX + 8, &(PBA | 3).to_le_bytes());
        self.express();
        self.capability(VPD, 3, 0, 0);
        self.allow(VPD + VPD_ADDRESS, &[0xff; 2]);
        self.allow(VPD + VPD_DATA, &[0xff; 4]);
        self.extended(place);
    }

    /// Header of a capability: id, next, and its first 16 bits.
    fn capability(&mut self, at: usize, id: u8, next: usize, word: u16) {
        self.set(at, &[id, next as u8]);
        self.set(at + 2, &word.to_le_bytes());
    }

    fn express(&mut self) {
        // Version 2, an endpoint.
        self.capability(EXPRESS, 0x10, VPD, 2);
        // 512 bytes of payload, extended tags, L0s below 512 ns, L1 below 64 µs,
        // role-based errors, FLR.
        let device: u32 = 2 | 1 << 5 | 3 << 6 | 6 << 9 | 1 << 15 | 1 << 28;
        self.set(EXPRESS + 4, &device.to_le_bytes());
        // Read requests of 512 bytes, relaxed order. The function never requests no snoop, so that
        // bit stays 0.
        self.set(DEVICE_CONTROL, &0x2010_u16.to_le_bytes());
        self.allow(DEVICE_CONTROL, &0x75ff_u16.to_le_bytes());
        // Max_Payload_Size survives a reset.
        super::copy(&mut self.sticky, DEVICE_CONTROL, &[0xe0]);
        self.set(EXPRESS + 0x0c, &u32::from(LINK).to_le_bytes());
        self.set(EXPRESS + 0x12, &LINK.to_le_bytes());
        // It belongs to the link: one for all functions.
        self.allow_sticky(EXPRESS + 0x10, &0x01fb_u16.to_le_bytes());
        // Completion timeout ranges A and B, which can be switched off; 10-bit tags as a completer;
        // extended format; one end-to-end prefix.
        let device2: u32 = 3 | 1 << 4 | 1 << 16 | 1 << 20 | 1 << 21 | 1 << 22;
        self.set(EXPRESS + 0x24, &device2.to_le_bytes());
        self.allow(EXPRESS + 0x28, &0x1f_u16.to_le_bytes());
        // 2.5 to 16 GT/s; target 16.
        self.set(EXPRESS + 0x2c, &0x1e_u32.to_le_bytes());
        self.set(EXPRESS + 0x30, &4_u16.to_le_bytes());
    }

    fn extended(&mut self, place: &Place) {
        self.extended_header(AER, 1, 2, ARI);
        // Masks and severities: sticky.
        self.allow_sticky(AER + 8, &[0xff; 8]);
        self.set(AER + 0xc, &0x0046_2030_u32.to_le_bytes());
        self.allow_sticky(AER + 0x14, &[0xff; 4]);
        self.set(AER + 0x14, &0xe000_u32.to_le_bytes());
        // ECRC can be generated and checked, and enabled.
        self.set(AER + 0x18, &(1_u32 << 5 | 1 << 7).to_le_bytes());
        self.allow_sticky(AER + 0x18, &(1_u32 << 6 | 1 << 8).to_le_bytes());

        self.extended_header(ARI, 0xe, 1, SERIAL);
        let next = place.function.saturating_add(1);
        let next = if next < place.functions { next } else { 0 };
        self.set(ARI + 5, &[next]);

        self.extended_header(SERIAL, 3, 1, TPH);
        let [a, b, c, d, e, f] = place.card;
        // EUI-64 of the address, its last byte first.
        self.set(SERIAL + 4, &[f, e, d, 0xff, 0xff, c, b, a]);

        // No steering table, device specific mode.
        self.extended_header(TPH, 0x17, 1, ACS);
        self.set(TPH + 4, &(1_u32 | 1 << 2).to_le_bytes());
        self.allow(TPH + 8, &0x0307_u32.to_le_bytes());

        // None of it can be enabled.
        let mut last = (ACS, 0xd);
        for (id, at) in EMPTY {
            self.extended_header(last.0, last.1, 1, at);
            last = (at, id);
        }
        self.extended_header(last.0, last.1, 1, 0);
    }

    fn extended_header(&mut self, at: usize, id: u16, version: u32, next: usize) {
        let header = u32::from(id) | version << 16 | (next as u32) << 20;
        self.set(at, &header.to_le_bytes());
    }

    /// After a write of `len` bytes at `at`: a VPD address with F clear requests data, and one with
    /// F set requests a write, which has no effect.
    pub(super) fn follow_vpd(&mut self, at: usize, len: usize) {
        let Some(vpd) = self.vpd_at else {
            return;
        };
        let flag = vpd + VPD_ADDRESS + 1;
        if !(at..at.saturating_add(len)).contains(&flag) {
            return;
        }
        let mut address = [0; 2];
        self.read((vpd + VPD_ADDRESS) as u64, &mut address);
        let address = u16::from_le_bytes(address);
        if address & 1 << 15 == 0 {
            let from = usize::from(address);
            let byte = |n| self.vpd.get(from + n).copied().unwrap_or(0);
            let data = [byte(0), byte(1), byte(2), byte(3)];
            self.set(vpd + VPD_DATA, &data);
        }
        self.set(vpd + VPD_ADDRESS, &(address ^ 1 << 15).to_le_bytes());
    }
}

/// Vital product data: only a name.
pub(super) fn vpd() -> Vec<u8> {
    let name = b"simulated E810-C";
    let mut data = vec![0x82, name.len() as u8, 0];
    data.extend_from_slice(name);
    // The end.
    data.push(0x78);
    data
}
