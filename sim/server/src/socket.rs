//! Sockets in the file system.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};

use crate::files::identity;

/// The file of a socket on which this process listens. A drop removes it, unless another file has
/// its name by then.
///
/// The listener has to live as long: it keeps the inode number, which another file might get
/// otherwise.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    /// The path where it was created.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it still exists. Another process may have removed it, and put its own there.
    fn is_there(&self) -> bool {
        is_at(&self.path, self.identity)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_there() {
            // It may be removed at this moment.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether the file at `path` itself is that file.
fn is_at(path: &Path, file: (u64, u64)) -> bool {
    fs::symlink_metadata(path).is_ok_and(|there| identity(&there) == file)
}

/// Listens at `path`, only for this user (mode 0600); a socket that a process left behind is
/// replaced.
///
/// The process's umask is changed while the socket is created, so that others cannot connect at any
/// moment. A file that another thread creates at that moment is only for this user, too.
///
/// # Errors
/// Something else is there, a process listens, or the folder cannot be written.
pub fn listen(path: &Path) -> Result<(UnixListener, SocketFile)> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
        Ok(about) if !about.file_type().is_socket() => {
            bail!("there is something else already: name another path, or remove it")
        }
        Ok(left) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // Another process that also found it may listen there by now.
                if is_at(path, identity(&left)) {
                    fs::remove_file(path)
                        .context("removing the socket of a process that is gone")?;
                }
            }
            _ => bail!("another process listens there: stop it, or name another path"),
        },
    }
    let listener = bind_private(path, &mask())?;
    let file = SocketFile {
        path: path.to_owned(),
        identity: identity(&fs::symlink_metadata(path)?),
    };
    Ok((listener, file))
}

/// Held while the process's umask is changed: two changes at once would leave one of them behind.
static MASK: Mutex<()> = Mutex::new(());

fn bind_private(path: &Path, _mask: &MutexGuard<'_, ()>) -> io::Result<UnixListener> {
    // SAFETY: no memory is touched; it cannot fail.
    let before = unsafe { libc::umask(0o177) };
    let listener = UnixListener::bind(path);
    // SAFETY: as above.
    unsafe { libc::umask(before) };
    listener
}

fn mask() -> MutexGuard<'static, ()> {
    MASK.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use vmm_sys_util::tempdir::TempDir;

    #[test]
    fn sockets_are_for_this_user_whatever_the_mask() {
        let folder = TempDir::new_with_prefix(std::env::temp_dir().join("e810-socket-")).unwrap();
        // Other tests of this process listen, too: their sockets wait until the mask is restored.
        let held = mask();
        // SAFETY: no memory is touched.
        let before = unsafe { libc::umask(0) };
        let path = folder.as_path().join("s");
        let listener = bind_private(&path, &held);
        let file = folder.as_path().join("f");
        fs::write(&file, "").unwrap();
        // SAFETY: no memory is touched.
        unsafe { libc::umask(before) };
        drop(held);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&file), 0o666, "the mask is as it was");
        // A second one gets an error; the socket of a process that is gone is replaced.
        assert!(listen(&path).is_err());
        drop(listener.unwrap());
        let (_listener, name) = listen(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert!(listen(&file).is_err());
        drop(name);
        assert!(!path.exists());
    }
}
