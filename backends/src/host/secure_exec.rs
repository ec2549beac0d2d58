//! Programs whose environment the loader does not trust.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Bits of a file's mode.
const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP_EXECUTES: u32 = 0o010;

/// Why the loader ignores LD_LIBRARY_PATH and LD_PRELOAD for a program: it runs with other rights
/// than the process that executes it.
///
/// # Errors
/// The file cannot be read.
pub fn ignores_environment(program: &Path) -> io::Result<Option<&'static str>> {
    let there = fs::metadata(program)?;
    // SAFETY: they read numbers of the process, and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let has = |bits: u32| there.mode() & bits == bits;
    if has(SET_UID) && there.uid() != user {
        return Ok(Some("it is set-uid"));
    }
    if has(SET_GID | GROUP_EXECUTES) && there.gid() != group {
        return Ok(Some("it is set-gid"));
    }
    if user != 0 && has_capabilities(program) {
        return Ok(Some("it has capabilities of its own"));
    }
    Ok(None)
}

fn has_capabilities(program: &Path) -> bool {
    let Ok(path) = CString::new(program.as_os_str().as_bytes()) else {
        return false;
    };
    let name = c"security.capability".as_ptr();
    // SAFETY: two strings, and no room for the value, so that only its length is returned.
    let length = unsafe { libc::getxattr(path.as_ptr(), name, std::ptr::null_mut(), 0) };
    length > 0
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use vmm_sys_util::tempdir::TempDir;

    use super::*;

    #[test]
    fn an_own_program_is_run_as_it_is() {
        let temporary = TempDir::new_with_prefix(std::env::temp_dir().join("e810-")).unwrap();
        let program = temporary.as_path().join("program");
        assert!(ignores_environment(&program).is_err(), "no file");
        fs::write(&program, "").unwrap();
        for mode in [0o755, 0o4755, 0o2755] {
            fs::set_permissions(&program, Permissions::from_mode(mode)).unwrap();
            assert_eq!(ignores_environment(&program).unwrap(), None, "{mode:o}");
        }
        // SAFETY: it reads a number of the process.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        // It belongs to another user: only root can give files away.
        std::os::unix::fs::chown(&program, Some(1), Some(1)).unwrap();
        for (mode, why) in [
            (0o755, None),
            (0o4755, Some("it is set-uid")),
            (0o2755, Some("it is set-gid")),
        ] {
            fs::set_permissions(&program, Permissions::from_mode(mode)).unwrap();
            assert_eq!(ignores_environment(&program).unwrap(), why, "{mode:o}");
        }
    }
}
