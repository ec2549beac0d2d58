//! Reading files that a user names: plain files of a bounded size.
//!
//! A FIFO would wait for a writer, and a device such as `/dev/zero` never ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens the plain file at `path` as `how` says, without waiting for another process.
///
/// # Errors
/// The system's error, or that it is not a regular file.
pub fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    let file = how.custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file: name one")),
    }
}

/// Reads the plain file at `path`, which has at most `most` bytes.
///
/// # Errors
/// As [`open`], or that it is longer.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = open(path, OpenOptions::new().read(true))?;
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!("longer than {most} bytes"))),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmm_sys_util::tempdir::TempDir;

    #[test]
    fn only_plain_files_are_read_and_up_to_a_limit() {
        let folder = TempDir::new_with_prefix(std::env::temp_dir().join("e810-plain-")).unwrap();
        let file = folder.as_path().join("file");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(read(&file, 5).unwrap(), b"12345");
        let text = read(&file, 4).unwrap_err().to_string();
        assert_eq!(text, "longer than 4 bytes");
        let fifo = folder.as_path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        for other in [fifo.as_path(), folder.as_path(), Path::new("/dev/zero")] {
            let text = read(other, 4).unwrap_err().to_string();
            assert_eq!(text, "not a regular file: name one", "{}", other.display());
        }
    }
}
