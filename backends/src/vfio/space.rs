//! Where memory is mapped for a device.

use std::fs::File;
use std::io;

use e810_hal::DmaError;

use crate::host::Host;
use crate::host::limits::{self, Memlock};
use crate::memory::PAGE;
use crate::transport::DmaRegion;

/// The I/O addresses of one function: a container, or an IOAS of iommufd.
///
/// Dropping it removes the function from the address space.
pub(super) trait Space: Send + Sync {
    /// Maps memory.
    ///
    /// # Safety
    /// As for [`Transport::map`](crate::Transport::map).
    unsafe fn map(&self, region: &DmaRegion<'_>) -> io::Result<()>;

    /// Unmaps exactly one mapping.
    fn unmap(&self, iova: u64, bytes: u64) -> io::Result<()>;

    /// The container, with which other processes can map memory; `None` if there is none.
    fn container(&self) -> Option<&File> {
        None
    }

    /// Unmaps all mappings in a range, also those of other processes that have the container. None
    /// may cross its ends.
    fn unmap_all(&self, iova: u64, bytes: u64) -> io::Result<()> {
        let _ = (iova, bytes);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Unmaps all that any process has mapped.
    fn clear(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The meaning of ENOSPC, when the kernel has no room for another mapping of `bytes`.
    fn no_room(&self, bytes: usize) -> DmaError;

    /// Bytes that the kernel counts against this process's limit on locked memory; `None` if it
    /// does not say.
    fn locked(&self, host: &Host) -> Option<u64>;
}

/// Checks the kernel's report of what it unmapped: whole mappings, and all that was asked.
pub(super) fn all_unmapped(unmapped: u64, bytes: u64) -> io::Result<()> {
    if unmapped == bytes {
        return Ok(());
    }
    let text = format!("{unmapped} of {bytes} bytes were unmapped");
    Err(io::Error::other(text))
}

/// Why the kernel did not map `region`; `None` if a program can do nothing about the reason.
pub(super) fn why_not_mapped(
    space: &dyn Space,
    host: &Host,
    region: &DmaRegion<'_>,
    cause: &io::Error,
) -> Option<DmaError> {
    let address = region.address.addr().get() as u64;
    let bytes = usize::try_from(region.bytes).unwrap_or(usize::MAX);
    Some(match cause.raw_os_error()? {
        libc::EFAULT => DmaError::NotAccessible {
            address,
            bytes,
            access: region.access,
        },
        libc::ENOMEM => match limits::memlock(host) {
            Some(Memlock::Bytes(limit)) => DmaError::LockLimit {
                bytes,
                limit,
                in_use: space.locked(host),
            },
            // There is no limit: memory itself is short.
            Some(Memlock::Unlimited) | None => {
                let align = PAGE;
                DmaError::OutOfMemory { bytes, align }
            }
        },
        libc::ENOSPC => space.no_room(bytes),
        _ => return None,
    })
}

/// The text of an error for which [`why_not_mapped`] has no reason.
pub(super) fn unusual(cause: &io::Error) -> String {
    match cause.raw_os_error() {
        Some(libc::EEXIST) => {
            "these I/O addresses are already mapped: a bug of this program, please report it"
                .to_owned()
        }
        _ => cause.to_string(),
    }
}
