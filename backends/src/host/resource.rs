//! BAR0 of a function through sysfs, for reading while any driver has the function.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::ptr::NonNull;

use e810_hal::bus::BAR0_LEN;
use e810_hal::{Bar0, Bus, RegOffset};
use memmap2::{MmapOptions, MmapRaw};
use thiserror::Error;

use super::Host;
use super::folder::Folder;
use crate::accept::Accept;
use crate::error::BackendError;
use crate::spec::Bdf;

/// BAR0, mapped only for reading.
#[derive(Debug)]
pub struct PassiveBar {
    registers: Bar0,
    _map: MmapRaw,
}

/// Why BAR0 cannot be read through sysfs.
#[derive(Debug, Error)]
pub enum PassiveError {
    /// There is no function at that address, or it is not an E810: nothing was read.
    #[error(transparent)]
    NotOurs(#[from] BackendError),
    /// The kernel is locked down, or the caller is not root.
    #[error(
        "{}: not permitted: run as root; a kernel in lockdown (Secure Boot) shows no BAR to user space, not even to root",
        path.display()
    )]
    NotPermitted {
        /// The file.
        path: PathBuf,
    },
    /// The BAR is smaller than the registers of an E810, or not aligned.
    #[error("{}: {bytes} bytes, but the registers of an E810 take {BAR0_LEN}", path.display())]
    TooSmall {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The function does not decode memory: it is off, or was never enabled.
    #[error(
        "memory decoding is off (bit 1 of the command register): a driver has to enable the function first"
    )]
    NotDecoding,
    /// Another error of the operating system.
    #[error("{}: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl PassiveBar {
    /// Maps BAR0 of the function at `bdf`, whatever driver it is bound to. By its ids the function
    /// must be a physical function of an E810: beside a driver, nothing else is ever read.
    ///
    /// # Errors
    /// [`PassiveError`].
    pub fn open(host: &Host, bdf: Bdf) -> Result<Self, PassiveError> {
        let device = bdf.to_string();
        let folder = Folder::open(host, &device, bdf)?;
        folder.check(&device, Accept::E810)?;
        let path = folder.path().join("resource0");
        let system = |source: io::Error| match source.kind() {
            ErrorKind::PermissionDenied => PassiveError::NotPermitted { path: path.clone() },
            _ => PassiveError::System {
                path: path.clone(),
                source,
            },
        };
        // Reading a BAR that is not decoded causes a fault on some machines.
        let [.., command, _] = folder.config::<6>().map_err(system)?;
        if command & 2 == 0 {
            return Err(PassiveError::NotDecoding);
        }
        let file = folder.file("resource0").map_err(system)?;
        let bytes = file.metadata().map_err(system)?.len();
        let too_small = || PassiveError::TooSmall {
            path: path.clone(),
            bytes,
        };
        if bytes < u64::from(BAR0_LEN) {
            return Err(too_small());
        }
        let len = BAR0_LEN as usize;
        let map = MmapOptions::new()
            .len(len)
            .map_raw_read_only(&file)
            .map_err(system)?;
        let registers = NonNull::new(map.as_mut_ptr()).and_then(|base| {
            // SAFETY: a mapping of that length, which lives as long as this value; no copy of the
            // registers leaves it. Nothing is written: the mapping is read-only, and `read` is the
            // only access. The caller of `read` decides whether the function's driver can stand
            // reads beside its own.
            unsafe { Bar0::new(base, len) }
        });
        Ok(Self {
            registers: registers.ok_or_else(too_small)?,
            _map: map,
        })
    }

    /// The register at `off`. Not for registers that change when they are read.
    #[must_use]
    pub fn read(&self, off: RegOffset) -> u32 {
        self.registers.read32(off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::{Tree, bdf};

    #[test]
    fn registers_are_read_through_the_file() {
        let tree = Tree::with_card();
        let open = || PassiveBar::open(tree.host(), bdf("3b:00.0"));
        let at = "/sys/bus/pci/devices/0000:3b:00.0";
        assert!(matches!(open(), Err(PassiveError::NotDecoding)));
        let nobody = PassiveBar::open(tree.host(), bdf("3c:00.0"));
        assert!(matches!(nobody, Err(PassiveError::NotOurs(_))));
        let config = tree.host().path(&format!("{at}/config"));
        let space = [0x86, 0x80, 0x92, 0x15, 2, 0, 0, 0, 0, 0, 0, 2];
        std::fs::write(&config, space).unwrap();
        assert!(matches!(open(), Err(PassiveError::System { .. })));
        let resource = tree.host().path(&format!("{at}/resource0"));
        std::fs::write(&resource, [0; 4096]).unwrap();
        let error = open().unwrap_err();
        assert!(matches!(error, PassiveError::TooSmall { bytes: 4096, .. }));
        let mut bytes = vec![0; BAR0_LEN as usize];
        bytes[0x9_E880..0x9_E884].copy_from_slice(&[1, 2, 3, 4]);
        std::fs::write(&resource, &bytes).unwrap();
        let bar = open().unwrap();
        assert_eq!(bar.read(RegOffset::new(0x9_E880)), 0x0403_0201);
        assert_eq!(bar.read(RegOffset::new(0)), 0);
        // A virtual function, another Intel controller, a GPU.
        for [vendor, device] in [[0x8086_u16, 0x1889], [0x8086, 0x1572], [0x10de, 0x2204]] {
            let mut space = space;
            space[..2].copy_from_slice(&vendor.to_le_bytes());
            space[2..4].copy_from_slice(&device.to_le_bytes());
            std::fs::write(&config, space).unwrap();
            let refused = open().unwrap_err();
            let expected = BackendError::NotE810 {
                device: "0000:3b:00.0".to_owned(),
                vendor,
                id: device,
            };
            assert!(matches!(refused, PassiveError::NotOurs(error) if error == expected));
        }
    }
}
