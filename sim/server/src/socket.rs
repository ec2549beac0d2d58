//! Sockets in the file system.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

/// The name of a socket that this process listens on.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode: nobody else has them while the socket is open.
    identity: (u64, u64),
}

impl SocketFile {
    /// Where it was made.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, while the socket is open, unless another file was put in its place.
    pub fn remove(&self) {
        let there = fs::symlink_metadata(&self.path);
        if there.is_ok_and(|there| (there.dev(), there.ino()) == self.identity) {
            // It may be removed by somebody else in this moment.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens at `path`, for this user only (mode 0600); a socket that a process left
/// behind is replaced.
///
/// The process's umask is another one while the socket is made, so that there is no
/// moment at which others could connect. A file that another thread makes in that
/// moment is for this user only, too.
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
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).context("removing the socket of a process that is gone")?;
            }
            _ => bail!("another process listens there: stop it, or name another path"),
        },
    }
    let listener = bind_private(path)?;
    let about = fs::symlink_metadata(path)?;
    let file = SocketFile {
        path: path.to_owned(),
        identity: (about.dev(), about.ino()),
    };
    Ok((listener, file))
}

fn bind_private(path: &Path) -> io::Result<UnixListener> {
    /// Two at once would leave the other's mask behind.
    static MASK: Mutex<()> = Mutex::new(());
    let _mask = MASK.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: no memory is touched; it cannot fail.
    let before = unsafe { libc::umask(0o177) };
    let listener = UnixListener::bind(path);
    // SAFETY: as above.
    unsafe { libc::umask(before) };
    listener
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use vmm_sys_util::tempdir::TempDir;

    #[test]
    fn sockets_are_for_this_user_whatever_the_mask() {
        let folder = TempDir::new_with_prefix(std::env::temp_dir().join("e810-socket-")).unwrap();
        // Other tests of this process make files that nothing else uses.
        // SAFETY: no memory is touched.
        let before = unsafe { libc::umask(0) };
        let path = folder.as_path().join("s");
        let listener = listen(&path);
        let file = folder.as_path().join("f");
        fs::write(&file, "").unwrap();
        // SAFETY: no memory is touched.
        unsafe { libc::umask(before) };
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&file), 0o666, "the mask is as it was");
        // A second one gets an error; the socket of a process that is gone is replaced.
        assert!(listen(&path).is_err());
        drop(listener.unwrap());
        listen(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert!(listen(&file).is_err());
    }

    #[test]
    fn a_socket_that_another_process_put_there_is_not_removed() {
        let folder = TempDir::new_with_prefix(std::env::temp_dir().join("e810-socket-")).unwrap();
        let path = folder.as_path().join("s");
        let (_open, ours) = listen(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let (_other, theirs) = listen(&path).unwrap();
        ours.remove();
        assert!(path.exists());
        theirs.remove();
        assert!(!path.exists());
        // Nothing is there any more.
        theirs.remove();
    }
}
