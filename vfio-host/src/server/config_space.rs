//! Configuration space of a served function: 4 KiB of bytes, what of them can
//! be written, and what a write does.
//!
//! Power management at 0x40, MSI-X at 0x70, PCI Express with function-level
//! reset at 0xa0, the serial number at 0x100.

use e810_hal::pci_ids::VENDOR;

/// Bytes of the space.
pub const LEN: usize = 4096;
/// Bytes of BAR0: registers, doorbells and push pages.
pub const BAR0_LEN: u64 = 32 << 20;
/// Bytes of BAR3: the MSI-X table, and the pending bits behind it.
pub const BAR3_LEN: u64 = 64 << 10;
/// Where the pending bits begin in BAR3.
pub const PBA: u32 = 0x8000;

const COMMAND: usize = 0x04;
/// Memory Space Enable and Bus Master Enable, in the command register.
const MEMORY: u8 = 1 << 1;
const MASTER: u8 = 1 << 2;
const BAR0: usize = 0x10;
const BAR3: usize = 0x1c;
const PM: usize = 0x40;
const MSIX: usize = 0x70;
const EXPRESS: usize = 0xa0;
const DEVICE_CONTROL: usize = EXPRESS + 8;
const SERIAL: usize = 0x100;

/// Initiate Function Level Reset, in the device control register.
const FLR: u16 = 1 << 15;
/// A 64-bit prefetchable memory BAR.
const BAR_64_PREFETCHABLE: u32 = 0xc;

/// E810-C for QSFP.
const DEVICE: u16 = 0x1592;
/// Ethernet controller.
const CLASS: [u8; 3] = [0, 0, 2];

/// What a write asked for, besides changing bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing.
    None,
    /// A function-level reset.
    Reset,
}

/// The space of one function.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    bytes: Vec<u8>,
    /// Bits that a write changes.
    writable: Vec<u8>,
    /// As after power-up.
    initial: Vec<u8>,
}

impl ConfigSpace {
    /// The space of a function with that Ethernet address and number of MSI-X
    /// vectors (1 to 2048).
    #[must_use]
    pub fn new(mac: [u8; 6], vectors: u16) -> Self {
        let mut this = Self {
            bytes: vec![0; LEN],
            writable: vec![0; LEN],
            initial: Vec::new(),
        };
        this.header();
        // Power management, version 3: states D0 and D3hot, no soft reset.
        this.set(PM, &(1 | (MSIX as u32) << 8 | 3 << 16).to_le_bytes());
        this.set(PM + 4, &[1 << 3]);
        this.allow(PM + 4, &[3]);
        // MSI-X: Table Size is one less; Enable [15] and Function Mask [14].
        let size = u32::from(vectors.clamp(1, 2048) - 1);
        let head = 0x11 | (EXPRESS as u32) << 8 | size << 16;
        this.set(MSIX, &head.to_le_bytes());
        this.allow(MSIX + 2, &0xc000_u16.to_le_bytes());
        // BIR 3 for both.
        this.set(MSIX + 4, &3_u32.to_le_bytes());
        this.set(MSIX + 8, &(PBA | 3).to_le_bytes());
        this.express();
        this.serial_number(mac);
        this.initial = this.bytes.clone();
        this
    }

    fn header(&mut self) {
        self.set(0, &VENDOR.to_le_bytes());
        self.set(2, &DEVICE.to_le_bytes());
        // Memory, master, parity, SERR#, INTx disable: no I/O BAR is there.
        self.allow(COMMAND, &0x0546_u16.to_le_bytes());
        // Capabilities List.
        self.set(0x06, &0x10_u16.to_le_bytes());
        // Revision 2.
        self.set(0x08, &[2]);
        self.set(0x09, &CLASS);
        // Cache line size and latency timer are for software to play with.
        self.allow(0x0c, &[0xff]);
        for (bar, len) in [(BAR0, BAR0_LEN), (BAR3, BAR3_LEN)] {
            self.set(bar, &BAR_64_PREFETCHABLE.to_le_bytes());
            // Sizing: the bits below the length stay 0.
            self.allow(bar, &(!(len - 1)).to_le_bytes());
        }
        self.set(0x2c, &VENDOR.to_le_bytes());
        self.set(0x2e, &2_u16.to_le_bytes());
        self.set(0x34, &[PM as u8]);
        // Interrupt Line; no pin, there is no INTx.
        self.allow(0x3c, &[0xff]);
    }

    fn express(&mut self) {
        // Version 2, an endpoint; the last capability.
        self.set(EXPRESS, &0x2_0010_u32.to_le_bytes());
        // 512 bytes of payload, role-based errors, FLR.
        self.set(EXPRESS + 4, &0x1000_8002_u32.to_le_bytes());
        // Read requests of 512 bytes, relaxed order, no snoop.
        self.set(DEVICE_CONTROL, &0x2810_u16.to_le_bytes());
        self.allow(DEVICE_CONTROL, &0x7fff_u16.to_le_bytes());
        // 16 lanes at 16 GT/s, as the link capability and as its state.
        self.set(EXPRESS + 0x0c, &0x104_u32.to_le_bytes());
        self.set(EXPRESS + 0x12, &0x104_u16.to_le_bytes());
        self.allow(EXPRESS + 0x10, &0x01fb_u16.to_le_bytes());
        // Completion timeout ranges and the ability to switch it off.
        self.set(EXPRESS + 0x24, &0x1f_u32.to_le_bytes());
        self.allow(EXPRESS + 0x28, &0x1f_u16.to_le_bytes());
        self.set(EXPRESS + 0x2c, &0x1e_u32.to_le_bytes());
    }

    fn serial_number(&mut self, mac: [u8; 6]) {
        let [a, b, c, d, e, f] = mac;
        // Version 1, the last extended capability.
        self.set(SERIAL, &0x1_0003_u32.to_le_bytes());
        // EUI-64 of the address, its last byte first.
        self.set(SERIAL + 4, &[f, e, d, 0xff, 0xff, c, b, a]);
    }

    fn set(&mut self, at: usize, value: &[u8]) {
        copy(&mut self.bytes, at, value);
    }

    fn allow(&mut self, at: usize, mask: &[u8]) {
        copy(&mut self.writable, at, mask);
    }

    /// Reads bytes; past the end there is nothing, which reads as all-ones.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let from = usize::try_from(offset)
            .ok()
            .and_then(|at| self.bytes.get(at..))
            .unwrap_or_default();
        let rest = from.iter().copied().chain(std::iter::repeat(0xff));
        for (to, from) in into.iter_mut().zip(rest) {
            *to = from;
        }
    }

    /// Writes bytes, as far as they can be written.
    pub fn write(&mut self, offset: u64, from: &[u8]) -> Effect {
        let Ok(at) = usize::try_from(offset) else {
            return Effect::None;
        };
        let bytes = self.bytes.iter_mut().zip(&self.writable).skip(at);
        for ((byte, mask), value) in bytes.zip(from) {
            *byte = *byte & !mask | value & mask;
        }
        // The high byte of device control has the bit; it reads as 0.
        let high = (DEVICE_CONTROL + 1).checked_sub(at);
        match high.and_then(|index| from.get(index)) {
            Some(byte) if u16::from(*byte) << 8 & FLR != 0 => Effect::Reset,
            _ => Effect::None,
        }
    }

    fn command(&self, bit: u8) -> bool {
        self.bytes.get(COMMAND).is_some_and(|byte| byte & bit != 0)
    }

    /// Memory Space Enable: the BARs answer.
    #[must_use]
    pub fn memory_enabled(&self) -> bool {
        self.command(MEMORY)
    }

    /// Bus Master Enable: the function may make requests.
    #[must_use]
    pub fn bus_master(&self) -> bool {
        self.command(MASTER)
    }

    /// A function-level reset: everything that software wrote is gone.
    pub fn reset(&mut self) {
        self.bytes.clone_from(&self.initial);
    }

    /// A reset that software asked for by other means than this space, and
    /// after which it finds the space as it left it, but for the master bit.
    pub fn stop_master(&mut self) {
        if let Some(byte) = self.bytes.get_mut(COMMAND) {
            *byte &= !MASTER;
        }
    }
}

fn copy(to: &mut [u8], at: usize, from: &[u8]) {
    let part = to.get_mut(at..).unwrap_or_default();
    for (to, from) in part.iter_mut().zip(from) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> ConfigSpace {
        ConfigSpace::new([2, 0xe8, 0x10, 0, 0, 7], 64)
    }

    fn word(space: &ConfigSpace, at: u64) -> u32 {
        let mut bytes = [0; 4];
        space.read(at, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    #[test]
    fn the_capabilities_are_where_they_are_said_to_be() {
        let space = space();
        assert_eq!(word(&space, 0), 0x1592_8086);
        assert_eq!(word(&space, 8), 0x0200_0002);
        let mut at = word(&space, 0x34) & 0xff;
        let mut found = Vec::new();
        while at != 0 {
            let head = word(&space, at.into());
            found.push((head & 0xff, at));
            at = head >> 8 & 0xff;
        }
        assert_eq!(found, [(1, 0x40), (0x11, 0x70), (0x10, 0xa0)]);
        assert_eq!(word(&space, 0x70) >> 16, 63);
        assert_eq!((word(&space, 0x74), word(&space, 0x78)), (3, 0x8003));
        assert_eq!(word(&space, 0x100), 0x1_0003);
        assert_eq!(
            (word(&space, 0x108), word(&space, 0x104)),
            (0x02e8_10ff, 0xff00_0007)
        );
        assert_eq!(word(&space, 0xffe) >> 16, 0xffff, "past the end");
    }

    #[test]
    fn bars_are_sized_by_writing_ones() {
        let mut space = space();
        for (bar, low, high) in [
            (0x10, 0xfe00_000c_u32, u32::MAX),
            (0x18, 0, 0),
            (0x1c, 0xffff_000c, u32::MAX),
            (0x24, 0, 0),
        ] {
            space.write(bar, &[0xff; 4]);
            assert_eq!(word(&space, bar), low, "{bar:#x}");
            if low != 0 {
                space.write(bar + 4, &[0xff; 4]);
                assert_eq!(word(&space, bar + 4), high, "{bar:#x}");
            }
        }
        space.write(0x10, &0x8123_4567_u32.to_le_bytes());
        assert_eq!(word(&space, 0x10), 0x8000_000c);
    }

    #[test]
    fn only_what_is_writable_changes() {
        let mut space = space();
        let before = space.bytes.clone();
        for at in (0..LEN as u64).filter(|at| *at != 0xa9) {
            assert_eq!(space.write(at, &[0xff]), Effect::None);
        }
        let changed = |at: usize| space.bytes[at] ^ before[at];
        assert_eq!((changed(4), changed(5)), (0x46, 0x05));
        for fixed in [0, 2, 6, 9, 0x34, 0x70, 0x74, 0x100, 0x104, 0x800] {
            assert_eq!(changed(fixed), 0, "{fixed:#x}");
        }
        assert_eq!(changed(0x73), 0xc0);
        space.write(LEN as u64, &[1]);
        space.write(u64::MAX, &[1]);
        space.reset();
        assert_eq!(space.bytes, before);
    }

    #[test]
    fn the_reset_bit_acts_and_reads_as_zero() {
        let mut space = space();
        assert_eq!(space.write(0xa8, &[0x10, 0x28]), Effect::None);
        for (at, bytes) in [
            (0xa8, &[0x10, 0xa8][..]),
            (0xa9, &[0x80]),
            (0xa8, &[0, 0x80, 0, 0]),
        ] {
            assert_eq!(space.write(at, bytes), Effect::Reset);
            assert_eq!(word(&space, 0xa8) & 0x8000, 0);
        }
    }
}
