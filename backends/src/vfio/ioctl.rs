//! Files that take ioctls, behind a trait that tests can mock.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// An open file that takes ioctls: a device, a container, /dev/iommu.
///
/// All requests of this backend to the kernel's VFIO and iommufd go through this, so that a test
/// can stand in for the kernel.
pub(super) trait IoctlFile: Send + Sync {
    /// The file, for mapping, reading and writing.
    fn file(&self) -> &File;

    /// An ioctl whose argument is a structure that the kernel reads and writes.
    ///
    /// # Safety
    /// `argument` is as large as the request's structure, and the caller may pass what it points
    /// to.
    unsafe fn ioctl(&self, request: libc::c_ulong, argument: &mut [u8]) -> io::Result<u32>;
}

impl IoctlFile for File {
    fn file(&self) -> &File {
        self
    }

    unsafe fn ioctl(&self, request: libc::c_ulong, argument: &mut [u8]) -> io::Result<u32> {
        // SAFETY: the descriptor is open; the rest is the caller's promise.
        let result = unsafe { libc::ioctl(self.as_raw_fd(), request as _, argument.as_mut_ptr()) };
        u32::try_from(result).map_err(|_| io::Error::last_os_error())
    }
}
