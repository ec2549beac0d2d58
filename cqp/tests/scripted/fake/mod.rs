//! A platform with a device that does as its script says.
//!
//! The device decodes what it needs with its own few lines, written from the
//! tables: the send queue in laps, the CCQ, the FPM buffers, the segments. It
//! complains (`Device::complaints`) when the driver does something a device
//! could not serve.

mod device;

use e810_hal::bus::{PfId, RegOffset};
use e810_hal::testing::{FakeDevice, FakeMemory, FakePlatform};

pub(crate) use device::{Device, Script};

/// PF of the tests.
pub(crate) const PF: u16 = 3;

pub(crate) fn pf() -> PfId {
    PfId::new(PF).unwrap()
}

/// A handle on the platform.
pub(crate) type Fake = FakePlatform<Device>;

/// A platform whose device follows `script`.
pub(crate) fn scripted(script: Script) -> Fake {
    Fake::new(Device::new(script))
}

impl FakeDevice for Device {
    // Under Miri, fewer turns reach a limit.
    const DELAY_FACTOR: u64 = if cfg!(miri) { 50 } else { 1 };

    fn read(&mut self, off: RegOffset) -> u32 {
        self.read(off)
    }

    fn write(&mut self, off: RegOffset, value: u32, memory: &FakeMemory, _: u64) {
        self.write(off, value, memory);
    }

    fn step(&mut self, memory: &FakeMemory, _: u64) {
        self.step(memory);
    }

    fn ordered(&mut self) {
        self.ordered = true;
    }

    fn complaints(&self) -> &[String] {
        &self.complaints
    }
}
