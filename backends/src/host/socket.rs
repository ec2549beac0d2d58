//! Sockets that a user names: what else there may be by that name.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Why nobody can connect to `path`, where that is something else than a socket: the system says
/// of it that the connection is refused, as of a socket that nobody listens on.
#[must_use]
pub fn why_not(path: &Path) -> Option<&'static str> {
    let there = fs::metadata(path).ok()?.file_type();
    Some(match () {
        () if there.is_socket() => return None,
        () if there.is_dir() => "it is a folder, and no socket",
        () if there.is_file() => "it is a plain file, and no socket",
        () if there.is_fifo() => "it is a FIFO, and no socket",
        () => "it is a device, and no socket",
    })
}
