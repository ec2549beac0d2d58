//! The folder that a user's processes share.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::{env, io::Error};

/// Why there is no such folder.
#[derive(Debug, thiserror::Error)]
pub enum NoUserFolder {
    /// It cannot be created or read.
    #[error("{}: {cause}", path.display())]
    System {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        cause: Error,
    },
    /// Others may write there.
    #[error(
        "{} is not a folder of this user alone: remove it, or correct its owner and mode (0700)",
        path.display()
    )]
    OfOthers {
        /// The folder.
        path: PathBuf,
    },
}

/// The number of this process's user.
fn user() -> u32 {
    // SAFETY: it reads a number of the process, and cannot fail.
    unsafe { libc::geteuid() }
}

/// `e810` in XDG_RUNTIME_DIR, if that belongs to this user, else `/tmp/e810-UID`. It is created
/// with mode 0700 if it does not exist.
///
/// # Errors
/// [`NoUserFolder`].
pub fn user_folder() -> Result<PathBuf, NoUserFolder> {
    let user = user();
    let path = match runtime_folder() {
        Some(runtime) => runtime.join("e810"),
        None => PathBuf::from(format!("/tmp/e810-{user}")),
    };
    private(path, user)
}

/// XDG_RUNTIME_DIR, if that is a folder of this user in which nobody else may write. With `sudo -E`
/// it belongs to another user.
#[must_use]
pub fn runtime_folder() -> Option<PathBuf> {
    runtime_folder_or_why().ok()
}

/// The same, or why there is none.
///
/// # Errors
/// What is wrong with XDG_RUNTIME_DIR, in words.
pub fn runtime_folder_or_why() -> Result<PathBuf, String> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let path = runtime.ok_or("XDG_RUNTIME_DIR is not set")?;
    match path.is_absolute() && is_private(&path, user()).unwrap_or(false) {
        true => Ok(path),
        false => Err(format!(
            "XDG_RUNTIME_DIR ({}) is no folder of this user alone",
            path.display()
        )),
    }
}

fn private(path: PathBuf, user: u32) -> Result<PathBuf, NoUserFolder> {
    let made = match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    match made.and_then(|()| is_private(&path, user)) {
        Ok(true) => Ok(path),
        Ok(false) => Err(NoUserFolder::OfOthers { path }),
        Err(cause) => Err(NoUserFolder::System { path, cause }),
    }
}

/// Whether `path` is a folder, not a link to one, in which only this user may write.
fn is_private(path: &Path, user: u32) -> io::Result<bool> {
    let there = fs::symlink_metadata(path)?;
    Ok(there.is_dir() && there.uid() == user && there.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use vmm_sys_util::tempdir::TempDir;

    use super::*;

    #[test]
    fn a_folder_of_the_user_alone() {
        let temporary = TempDir::new_with_prefix(env::temp_dir().join("e810-")).unwrap();
        let at = |name: &str| temporary.as_path().join(name);
        let made = private(at("new"), user()).unwrap();
        let mode = fs::metadata(&made).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(private(made.clone(), user()).unwrap(), made);

        fs::set_permissions(&made, Permissions::from_mode(0o770)).unwrap();
        let open = private(made.clone(), user());
        assert!(matches!(open, Err(NoUserFolder::OfOthers { .. })));
        fs::set_permissions(&made, Permissions::from_mode(0o700)).unwrap();
        let others = private(made.clone(), user() + 1);
        assert!(matches!(others, Err(NoUserFolder::OfOthers { .. })));
        symlink(&made, at("link")).unwrap();
        let link = private(at("link"), user());
        assert!(matches!(link, Err(NoUserFolder::OfOthers { .. })));
        let nowhere = private(at("no/where"), user());
        assert!(matches!(nowhere, Err(NoUserFolder::System { .. })));
    }
}
