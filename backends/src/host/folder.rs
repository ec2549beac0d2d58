//! The folder of a PCI function in sysfs, held open.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};

use e810_hal::pci_ids::PciIds;

use super::{Host, pci};
use crate::accept::Accept;
use crate::error::BackendError;
use crate::spec::Bdf;

/// The open folder of a function: all files opened through it belong to one function, even if
/// another function takes its address meanwhile.
#[derive(Debug)]
pub struct Folder {
    folder: File,
    path: PathBuf,
}

impl Folder {
    /// The folder of the function at `bdf`; errors call it `device`.
    ///
    /// # Errors
    /// [`BackendError::Unfit`] if there is no function at that address.
    pub fn open(host: &Host, device: &str, bdf: Bdf) -> Result<Self, BackendError> {
        let path = pci::folder(host, bdf);
        let folder = File::open(&path).map_err(|cause| match cause.kind() {
            ErrorKind::NotFound => BackendError::Unfit {
                device: device.to_owned(),
                what:
                    "there is no PCI function at this address; `e810 list` shows the E810 functions"
                        .to_owned(),
            },
            _ => BackendError::system(device, "opening its folder in sysfs", &cause),
        })?;
        Ok(Self { folder, path })
    }

    /// Its path, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file of the function for reading.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn file(&self, name: &str) -> io::Result<File> {
        let name = CString::new(name)?;
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        // SAFETY: an open folder, and a string that lives for the call.
        let fd = unsafe { libc::openat(self.folder.as_raw_fd(), name.as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else has.
        Ok(unsafe { File::from_raw_fd(fd) })
    }

    /// The first bytes of the function's configuration space.
    ///
    /// # Errors
    /// Errors of the operating system; a space that is too short.
    pub fn config<const N: usize>(&self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.file("config")?.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Checks by its configuration space what the function is, and returns its name.
    ///
    /// # Errors
    /// As [`Accept::check`]; configuration space cannot be read.
    pub fn check(&self, device: &str, accept: Accept) -> Result<&'static str, BackendError> {
        let space = self
            .config()
            .map_err(|cause| BackendError::system(device, "reading its ids", &cause))?;
        accept.check(device, PciIds::of_config(space))
    }
}

/// Checks what the function at `bdf` is; errors call it `device`.
///
/// # Errors
/// As [`Folder::open`] and [`Folder::check`].
pub fn check(host: &Host, device: &str, bdf: Bdf, accept: Accept) -> Result<(), BackendError> {
    Folder::open(host, device, bdf)?
        .check(device, accept)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::{Tree, bdf};

    const FIRST: &str = "3b:00.0";
    const AT: &str = "/sys/bus/pci/devices/0000:3b:00.0";

    #[test]
    fn the_ids_are_those_of_configuration_space() {
        let tree = Tree::with_card();
        let checked = || check(tree.host(), "card", bdf(FIRST), Accept::E810);
        checked().unwrap();
        // The files of sysfs say one thing, and the device another.
        tree.config("0000:3b:00.0", "0x10de", "0x2204", 0x0300);
        assert!(matches!(
            checked(),
            Err(BackendError::NotE810 {
                vendor: 0x10de,
                id: 0x2204,
                ..
            })
        ));
        std::fs::write(tree.host().path(&format!("{AT}/config")), [0xff; 64]).unwrap();
        let error = checked().unwrap_err().to_string();
        assert!(error.contains("reads as ones"), "{error}");
        tree.remove(&format!("{AT}/config"));
        checked().unwrap_err();
        let error = check(tree.host(), "card", bdf("3c:00.0"), Accept::IntelEthernet);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no PCI function at this address"), "{error}");
    }

    #[test]
    fn a_folder_stays_that_of_its_function() {
        let tree = Tree::with_card();
        let folder = Folder::open(tree.host(), "card", bdf(FIRST)).unwrap();
        let moved = "/sys/bus/pci/gone";
        std::fs::rename(tree.host().path(AT), tree.host().path(moved)).unwrap();
        tree.function("0000:3b:00.0", "0x10de", "0x2204");
        assert_eq!(folder.check("card", Accept::E810), Ok("E810-C for QSFP"));
        check(tree.host(), "card", bdf(FIRST), Accept::E810).unwrap_err();
    }
}
