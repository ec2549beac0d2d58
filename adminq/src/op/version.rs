//! 0x0001 Get Version, 0x0002 Driver Version, 0x0003 Queue Shutdown
//! (control-path 9.4).

use heapless::Vec;

use super::{Command, Data, at_most};
use crate::answer::Answer;
use crate::bytes::{byte, le32, put};
use crate::error::Result;
use crate::opcode::Opcode;

/// Get Version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetVersion;

/// Version of the firmware.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Firmware {
    /// Branch.
    pub branch: u8,
    /// Major.
    pub major: u8,
    /// Minor.
    pub minor: u8,
    /// Patch.
    pub patch: u8,
    /// Build number.
    pub build: u32,
}

/// Version of the AdminQ interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Api {
    /// Branch.
    pub branch: u8,
    /// Major: a different value means a different interface.
    pub major: u8,
    /// Minor.
    pub minor: u8,
    /// Patch.
    pub patch: u8,
}

/// Versions that the firmware reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Version {
    /// Version of the ROM.
    pub rom: u32,
    /// Version of the firmware.
    pub firmware: Firmware,
    /// Version of the AdminQ interface.
    pub api: Api,
}

impl Command for GetVersion {
    type Reply = Version;

    fn opcode(&self) -> Opcode {
        Opcode::GET_VERSION
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<Version> {
        let params = answer.params();
        let at = |offset| byte(params, offset);
        Ok(Version {
            rom: le32(params, 0),
            firmware: Firmware {
                branch: at(8),
                major: at(9),
                minor: at(10),
                patch: at(11),
                build: le32(params, 4),
            },
            api: Api {
                branch: at(12),
                major: at(13),
                minor: at(14),
                patch: at(15),
            },
        })
    }
}

/// Longest driver name that is sent, in bytes. Ours; in the sources only the buffer limits the
/// field.
const NAME_BYTES: usize = 32;

/// Driver Version: tells the firmware which driver uses the function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriverVersion {
    version: [u8; 4],
    name: Vec<u8, NAME_BYTES>,
}

impl DriverVersion {
    /// Major, minor, build and subbuild, and a name of 1 to 32 bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) for the name.
    pub fn new(version: [u8; 4], name: &str) -> Result<Self> {
        at_most(
            "length of the driver's name",
            name.len() as u64,
            NAME_BYTES as u64,
        )?;
        Ok(Self {
            version,
            // Fits: checked above.
            name: Vec::from_slice(name.as_bytes()).unwrap_or_default(),
        })
    }
}

impl Command for DriverVersion {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::DRIVER_VERSION
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put(&mut params, 0, self.version);
        params
    }

    fn data(&self) -> Data<'_> {
        Data::Send(&self.name)
    }

    fn decode(&self, _: &Answer<'_>) -> Result<()> {
        Ok(())
    }
}

/// Queue Shutdown: the driver leaves the queues, and perhaps the function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueShutdown {
    /// The driver leaves the function too.
    pub unloading: bool,
}

impl Command for QueueShutdown {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::QUEUE_SHUTDOWN
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put(&mut params, 0, [u8::from(self.unloading)]);
        params
    }

    fn decode(&self, _: &Answer<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::testing::decode;

    #[test]
    fn a_version_is_sixteen_bytes() {
        let reply = [1, 0, 0, 0, 2, 1, 0, 0, 3, 4, 5, 6, 7, 1, 5, 8];
        let version = decode(&GetVersion, reply, &[]).unwrap();
        assert_eq!(version.rom, 1);
        assert_eq!(version.firmware.build, 0x102);
        let fw = version.firmware;
        assert_eq!((fw.branch, fw.major, fw.minor, fw.patch), (3, 4, 5, 6));
        let api = version.api;
        assert_eq!((api.branch, api.major, api.minor, api.patch), (7, 1, 5, 8));
    }

    #[test]
    fn the_driver_says_who_it_is() {
        let command = DriverVersion::new([0, 1, 2, 3], "e810").unwrap();
        assert_eq!(command.params()[..5], [0, 1, 2, 3, 0]);
        assert_eq!(command.data(), Data::Send(b"e810"));
        let long = "x".repeat(33);
        assert!(DriverVersion::new([0; 4], &long).is_err());
    }

    #[test]
    fn shutdown_says_whether_the_driver_leaves() {
        assert_eq!(QueueShutdown { unloading: true }.params()[0], 1);
        assert_eq!(QueueShutdown { unloading: false }.params(), [0; 16]);
    }
}
