//! A platform with a firmware that does as its script says.
//!
//! The firmware decodes descriptors and buffers with its own few lines, written
//! from the tables. It complains (`Firmware::complaints`) when the driver does
//! something a device could not serve.

#![allow(
    dead_code,
    unused_imports,
    clippy::allow_attributes,
    reason = "each test binary uses its own part of the fake"
)]

mod firmware;
mod state;

use e810_hal::bus::RegOffset;
use e810_hal::testing::{FakeDevice, FakeMemory, FakePlatform};

pub(crate) use firmware::{Fault, Firmware};
pub(crate) use state::Reply;

/// A handle on the platform.
pub(crate) type Fake = FakePlatform<Firmware>;

/// What tests of the AdminQ ask of the platform.
pub(crate) trait FirmwareFake {
    /// Has the firmware report an event; whether there was an entry for it.
    fn event(&self, opcode: u16, flags: u16, datalen: u16, data: &[u8]) -> bool;

    /// Opcodes of the commands taken, in order.
    fn opcodes(&self) -> Vec<u16>;
}

impl FirmwareFake for Fake {
    fn event(&self, opcode: u16, flags: u16, datalen: u16, data: &[u8]) -> bool {
        self.with(|firmware, memory| firmware.event(memory, opcode, flags, datalen, data))
    }

    fn opcodes(&self) -> Vec<u16> {
        let firmware = self.device();
        firmware.taken.iter().map(|taken| taken.opcode).collect()
    }
}

impl FakeDevice for Firmware {
    fn read(&mut self, off: RegOffset) -> u32 {
        self.read(off)
    }

    fn write(&mut self, off: RegOffset, value: u32, _: &FakeMemory, now: u64) {
        self.write(off, value, now);
    }

    fn step(&mut self, memory: &FakeMemory, now: u64) {
        self.step(memory, now);
    }

    fn ordered(&mut self) {
        self.ordered = true;
    }

    fn may_free(&self) -> bool {
        !self.queues_on()
    }

    fn complaints(&self) -> &[String] {
        &self.complaints
    }
}
