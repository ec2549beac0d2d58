//! Paths that a user names as sockets, and what else may be there.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Why nobody can connect to `path`, if it is not a socket: the system's error is then the same as
/// for a socket without a listener, a refused connection.
#[must_use]
pub fn why_not(path: &Path) -> Option<&'static str> {
    let there = fs::metadata(path).ok()?.file_type();
    Some(match () {
        () if there.is_socket() => return None,
        () if there.is_dir() => "it is a folder, not a socket",
        () if there.is_file() => "it is a regular file, not a socket",
        () if there.is_fifo() => "it is a FIFO, not a socket",
        () => "it is a device, not a socket",
    })
}
