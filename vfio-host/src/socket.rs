//! Sockets in the file system.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Listens at `path`; a socket that a process left behind is replaced.
///
/// # Errors
/// Something else is there, somebody listens, or the folder cannot be written.
pub fn listen(path: &Path) -> Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
        Ok(about) if !about.file_type().is_socket() => {
            bail!("there is something else already: name another path, or remove it")
        }
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).context("removing the socket of a process that is gone")?;
            }
            _ => bail!("another process listens there: stop it, or name another path"),
        },
    }
    Ok(UnixListener::bind(path)?)
}
