//! Memory in a file that is not sealed, for tests.

use std::fs::File;
use std::os::fd::FromRawFd;

/// A file of `bytes` zeros.
pub(crate) fn memory_file(bytes: u64) -> File {
    // SAFETY: the name is a text that ends with a zero; the descriptor is new.
    let file =
        unsafe { File::from_raw_fd(libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC)) };
    file.set_len(bytes).unwrap();
    file
}
