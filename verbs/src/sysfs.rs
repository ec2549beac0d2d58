//! What programs read from sysfs through the library: files in the folder that `SYSFS_PATH` names,
//! as with the real library. A function without a kernel driver has nothing in `/sys`; `e810 run`
//! makes a folder and sets the variable.

use core::ffi::{CStr, c_char, c_int};
use std::env;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::OnceLock;

use crate::errno::fail;
use crate::panics::catch_panics;

/// The environment variable, and its default.
const PATH: &str = "SYSFS_PATH";
const SYS: &CStr = c"/sys";

/// The folder, without a `/` at its end. The environment is ignored in a program that runs with
/// another user's rights.
pub(crate) fn root() -> &'static CStr {
    static ROOT: OnceLock<CString> = OnceLock::new();
    ROOT.get_or_init(|| {
        // SAFETY: they read numbers of the process, and cannot fail.
        let is_own = unsafe { libc::getuid() == libc::geteuid() };
        let named = env::var_os(PATH).filter(|_| is_own);
        let named = named.and_then(|path| without_slashes(path.as_bytes()));
        named.unwrap_or_else(|| SYS.to_owned())
    })
}

fn without_slashes(path: &[u8]) -> Option<CString> {
    let end = path.iter().rposition(|byte| *byte != b'/');
    CString::new(path.get(..=end?)?).ok()
}

/// `ibv_get_sysfs_path`.
pub extern "C" fn get_sysfs_path() -> *const c_char {
    root().as_ptr()
}

/// `ibv_read_sysfs_file`: the length of a file's content without the newline, or -1 and errno. A
/// zero ends the content; there must be room for it.
///
/// # Safety
/// `folder` and `file` are strings, and `size` bytes can be written at `into`.
pub unsafe extern "C" fn read_sysfs_file(
    folder: *const c_char,
    file: *const c_char,
    into: *mut c_char,
    size: usize,
) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let [folder, file] = [folder, file].map(|text| unsafe { CStr::from_ptr(text) });
        let part = |text: &CStr| Path::new(OsStr::from_bytes(text.to_bytes())).to_owned();
        match read(&part(folder).join(part(file)), size) {
            Ok(mut text) => {
                let length = text.len();
                text.push(0);
                // SAFETY: the caller's: it is no longer than `size`.
                unsafe { into.copy_from_nonoverlapping(text.as_ptr().cast(), text.len()) };
                length as c_int
            }
            Err(number) => fail(number),
        }
    })
}

/// The content of a file, which must be less than `size` bytes.
fn read(path: &Path, size: usize) -> Result<Vec<u8>, c_int> {
    let number = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => libc::ENOENT,
        _ => error.raw_os_error().unwrap_or(libc::EIO),
    };
    let mut text = Vec::new();
    // Opening a FIFO would wait for a writer.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(number)?;
    if !file.metadata().map_err(number)?.is_file() {
        return Err(libc::EINVAL);
    }
    let most = (size as u64).saturating_add(1);
    file.take(most).read_to_end(&mut text).map_err(number)?;
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    if text.len() >= size {
        return Err(libc::EINVAL);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_folder_has_no_slash_at_its_end() {
        let root = |path: &[u8]| without_slashes(path);
        assert_eq!(root(b"/run/x//").unwrap().as_c_str(), c"/run/x");
        assert_eq!(root(b"/x").unwrap().as_c_str(), c"/x");
        assert_eq!([root(b""), root(b"/"), root(b"a\0b")], [None, None, None]);
    }

    #[test]
    fn a_file_is_read_without_its_line_end() {
        let folder = env::temp_dir().join(format!("e810-sysfs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("type"), "RoCE v2\n").unwrap();
        let folder_text = CString::new(folder.as_os_str().as_bytes()).unwrap();
        let read = |file: &CStr, size: usize| {
            let mut buffer = [0x55_u8; 16];
            // SAFETY: strings, and a buffer of at least that size.
            let length = unsafe {
                read_sysfs_file(
                    folder_text.as_ptr(),
                    file.as_ptr(),
                    buffer.as_mut_ptr().cast(),
                    size,
                )
            };
            (length, buffer)
        };
        let (length, buffer) = read(c"type", 8);
        assert_eq!((length, &buffer[..9]), (7, b"RoCE v2\0U".as_slice()));
        // No room for the zero, or no file.
        assert_eq!((read(c"type", 7).0, read(c"type", 0).0), (-1, -1));
        assert_eq!(read(c"other", 16).0, -1);
        // A file on which an open would wait.
        let made = Command::new("mkfifo").arg(folder.join("fifo")).status();
        assert!(made.unwrap().success());
        assert_eq!(read(c"fifo", 16).0, -1);
        fs::remove_dir_all(folder).unwrap();
    }
}
