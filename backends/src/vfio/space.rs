//! Where memory is mapped for a device.

use std::io;

use crate::transport::DmaRegion;

/// The I/O addresses of one function: a container, or an IOAS of iommufd.
///
/// Dropping it takes the function out of them.
pub(super) trait Space: Send + Sync {
    /// Maps memory.
    ///
    /// # Safety
    /// As for [`Transport::map`](crate::Transport::map).
    unsafe fn map(&self, region: &DmaRegion<'_>) -> io::Result<()>;

    /// Unmaps exactly one mapping.
    fn unmap(&self, iova: u64, bytes: u64) -> io::Result<()>;

    /// What to do when there is no room for another mapping.
    fn more_mappings(&self) -> &'static str;
}

/// The kernel says how much it unmapped: whole mappings, all of what was asked.
pub(super) fn all_unmapped(unmapped: u64, bytes: u64) -> io::Result<()> {
    if unmapped == bytes {
        return Ok(());
    }
    let text = format!("{unmapped} of {bytes} bytes were unmapped");
    Err(io::Error::other(text))
}

/// Why `bytes` were not mapped, and what to do.
pub(super) fn why_not_mapped(space: &dyn Space, bytes: u64, cause: &io::Error) -> String {
    match cause.raw_os_error() {
        Some(libc::ENOMEM) => format!(
            "{bytes} bytes are more than may be locked; raise the limit (`ulimit -l unlimited` as root, or LimitMEMLOCK= of the service)"
        ),
        Some(libc::ENOSPC) => format!(
            "the kernel's limit on mappings is reached; {}",
            space.more_mappings()
        ),
        Some(libc::EEXIST) => {
            "something is mapped at these I/O addresses already: a mistake of this program, please report it"
                .to_owned()
        }
        _ => cause.to_string(),
    }
}
