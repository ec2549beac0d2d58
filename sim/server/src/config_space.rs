//! Configuration space of a served function: 4 KiB of bytes, which of them can be written, and the
//! effects of writes.
//!
//! The capabilities and their offsets are those of the published dumps of cards (field-evidence 1);
//! see `capabilities`. SR-IOV is left out: there are no virtual functions here, and the capability
//! would offer them.

mod capabilities;
mod recorded;

use e810_hal::pci_ids::VENDOR;

/// Bytes of the space.
pub const LEN: usize = 4096;
/// Bytes of BAR0: registers, doorbells and push pages.
pub const BAR0_LEN: u64 = 32 << 20;
/// Bytes of BAR3: the MSI-X table, followed by the pending bits.
pub const BAR3_LEN: u64 = 64 << 10;
/// Where the pending bits begin in BAR3.
pub const PBA: u32 = 0x8000;
/// Bytes of the expansion ROM's BAR. Nothing is behind it.
const ROM_LEN: u32 = 1 << 20;

const COMMAND: usize = 0x04;
/// Memory Space Enable and Bus Master Enable, in the command register.
const MEMORY: u8 = 1 << 1;
const MASTER: u8 = 1 << 2;
const HEADER_TYPE: usize = 0x0e;
const BAR0: usize = 0x10;
const BAR3: usize = 0x1c;
const ROM: usize = 0x30;
const INTERRUPT_PIN: usize = 0x3d;

/// Initiate Function Level Reset, in the device control register.
const FLR: u16 = 1 << 15;
/// A 64-bit prefetchable memory BAR.
const BAR_64_PREFETCHABLE: u32 = 0xc;

/// E810-C for QSFP.
const DEVICE: u16 = 0x1592;
/// Ethernet controller.
const CLASS: [u8; 3] = [0, 0, 2];

/// The effect of a write, besides changing bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing.
    None,
    /// A function-level reset.
    Reset,
}

/// What distinguishes a function from the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The Ethernet address from which the card's serial number is made: one for each card, for all
    /// functions (PCI Express).
    pub card: [u8; 6],
    pub function: u8,
    /// Functions of the card.
    pub functions: u8,
    /// MSI-X vectors of the function, 1 to 2048.
    pub vectors: u16,
}

/// The space of one function.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    bytes: Vec<u8>,
    /// Bits that a write can change.
    writable: Vec<u8>,
    /// Bits that a function-level reset keeps.
    sticky: Vec<u8>,
    /// The bytes after power-up.
    initial: Vec<u8>,
    vpd: Vec<u8>,
    /// The offsets of the VPD capability, and of the register that resets the function.
    vpd_at: Option<usize>,
    device_control: Option<usize>,
}

impl ConfigSpace {
    /// The space of a function.
    #[must_use]
    pub fn new(place: &Place) -> Self {
        let mut this = Self {
            bytes: vec![0; LEN],
            writable: vec![0; LEN],
            sticky: vec![0; LEN],
            initial: Vec::new(),
            vpd: capabilities::vpd(),
            vpd_at: Some(capabilities::VPD),
            device_control: Some(capabilities::DEVICE_CONTROL),
        };
        this.header(place);
        this.capabilities(place);
        this.initial = this.bytes.clone();
        this
    }

    /// The space of a card, from the bytes in its report.
    #[must_use]
    pub fn recorded(place: &Place, bytes: &[u8]) -> Self {
        let mut this = Self::new(place);
        this.take_over(bytes, place);
        this.initial = this.bytes.clone();
        this
    }

    fn header(&mut self, place: &Place) {
        self.set(0, &VENDOR.to_le_bytes());
        self.set(2, &DEVICE.to_le_bytes());
        // Memory, master, parity, SERR#, INTx disable: there is no I/O BAR.
        self.allow(COMMAND, &0x0546_u16.to_le_bytes());
        // Capabilities List.
        self.set(0x06, &0x10_u16.to_le_bytes());
        // Revision 2.
        self.set(0x08, &[2]);
        self.set(0x09, &CLASS);
        // Cache line size and latency timer can be written and have no effect.
        self.allow(0x0c, &[0xff]);
        // One of several functions.
        self.set(HEADER_TYPE, &[u8::from(place.functions > 1) << 7]);
        for (bar, len) in [(BAR0, BAR0_LEN), (BAR3, BAR3_LEN)] {
            self.set(bar, &BAR_64_PREFETCHABLE.to_le_bytes());
            // Sizing: the bits below the length stay 0.
            self.allow(bar, &(!(len - 1)).to_le_bytes());
        }
        self.set(0x2c, &VENDOR.to_le_bytes());
        self.set(0x2e, &2_u16.to_le_bytes());
        // Address and enable bit.
        self.allow(ROM, &(!(ROM_LEN - 1) | 1).to_le_bytes());
        self.set(0x34, &[capabilities::PM as u8]);
        self.allow(0x3c, &[0xff]);
        // INTA, which is never asserted here.
        self.set(INTERRUPT_PIN, &[1]);
    }

    fn set(&mut self, at: usize, value: &[u8]) {
        copy(&mut self.bytes, at, value);
    }

    fn allow(&mut self, at: usize, mask: &[u8]) {
        copy(&mut self.writable, at, mask);
    }

    /// As [`Self::allow`], for bits that a function-level reset keeps.
    fn allow_sticky(&mut self, at: usize, mask: &[u8]) {
        self.allow(at, mask);
        copy(&mut self.sticky, at, mask);
    }

    /// Reads bytes; past the end they read as all-ones.
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

    /// Writes bytes, as far as they are writable.
    pub fn write(&mut self, offset: u64, from: &[u8]) -> Effect {
        let Ok(at) = usize::try_from(offset) else {
            return Effect::None;
        };
        let bytes = self.bytes.iter_mut().zip(&self.writable).skip(at);
        for ((byte, mask), value) in bytes.zip(from) {
            *byte = *byte & !mask | value & mask;
        }
        self.follow_vpd(at, from.len());
        // The high byte of device control has the reset bit, which reads as 0.
        let control = self.device_control;
        let high = control.and_then(|control| (control + 1).checked_sub(at));
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

    /// Bus Master Enable: the function may issue requests.
    #[must_use]
    pub fn bus_master(&self) -> bool {
        self.command(MASTER)
    }

    /// A function-level reset: what software wrote is lost, except for what belongs to the link and
    /// what is sticky (PCI Express 6.6.2).
    pub fn reset(&mut self) {
        let values = self.initial.iter().zip(&self.sticky);
        for (byte, (initial, sticky)) in self.bytes.iter_mut().zip(values) {
            *byte = *byte & sticky | initial & !sticky;
        }
    }

    /// Sets the state after power-up.
    pub fn power_up(&mut self) {
        self.bytes.clone_from(&self.initial);
    }

    /// For a reset that software requested by other means than this space: the space stays as
    /// software left it, except for the master bit.
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
mod tests;
