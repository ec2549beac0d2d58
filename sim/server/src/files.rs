//! Files that the server writes at paths that its user names: reports and packages.
//!
//! A name may be in a folder that others can write to, or be a mistake. So no link is followed
//! (O_NOFOLLOW), and no existing file is opened for writing (O_EXCL). A file that is not this
//! program's is left as it is; one that is gets replaced as a whole.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::report::ServerReport;

/// The most bytes of an earlier report that are read.
const LONGEST_REPORT: u64 = 64 << 20;

/// A report that is written repeatedly.
#[derive(Debug)]
pub struct ReportFile {
    path: PathBuf,
    /// The file that was put there last. It is kept open, because the inode number of a file that
    /// nobody has open is reused for the next file, which would then pass for this one.
    ours: File,
}

impl ReportFile {
    /// Creates an empty file at `path`, if nothing is there or the report of an earlier server.
    ///
    /// # Errors
    /// Something else is there, which is left as it is, or the folder cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        let ours = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => exclusive(path)?,
            Err(error) => return Err(error.into()),
            Ok(_) => {
                let old = open_plain(path)?;
                if !is_report(&old) {
                    bail!(
                        "there is a file already that is no report: name another path, or remove it"
                    );
                }
                old
            }
        };
        let mut this = Self {
            path: path.to_owned(),
            ours,
        };
        this.replace(|_| Ok(()))?;
        Ok(this)
    }

    /// Replaces the report. A reader of the file meanwhile sees the old one or the new one.
    ///
    /// # Errors
    /// Another file was put there, which is left as it is, or the report cannot be written.
    pub fn write(&mut self, report: &ServerReport) -> Result<()> {
        self.replace(|file| {
            serde_json::to_writer_pretty(&mut *file, report)?;
            writeln!(file)
        })
    }

    fn replace(&mut self, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
        let (part, file) = part_beside(&self.path)?;
        let new = file.try_clone()?;
        let mut file = BufWriter::new(file);
        let done = fill(&mut file)
            .and_then(|()| file.flush())
            .map_err(anyhow::Error::from)
            .and_then(|()| self.put(&part));
        if done.is_err() {
            // Nobody else made a file with this name.
            let _ = fs::remove_file(&part);
        } else {
            self.ours = new;
        }
        done
    }

    /// Gives the file at `part` the report's name.
    fn put(&self, part: &Path) -> Result<()> {
        match fs::symlink_metadata(&self.path) {
            // The last one was removed: do not overwrite what may come meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::hard_link(part, &self.path)?;
                fs::remove_file(part)?;
            }
            Err(error) => return Err(error.into()),
            Ok(there) if identity(&there) == identity(&self.ours.metadata()?) => {
                fs::rename(part, &self.path)?;
            }
            Ok(_) => bail!("another file was put there since: remove it"),
        }
        Ok(())
    }
}

/// What distinguishes a file from all other existing ones: its device and its inode number.
pub(crate) fn identity(about: &fs::Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

/// Whether [`ReportFile`] could have left this file: it is empty, or an object with the three parts
/// that every report has.
fn is_report(file: &File) -> bool {
    #[derive(serde::Deserialize)]
    struct Parts {
        #[expect(dead_code, reason = "it only has to be there")]
        functions: Vec<serde::de::IgnoredAny>,
        #[expect(dead_code, reason = "it only has to be there")]
        findings: Vec<serde::de::IgnoredAny>,
        #[expect(dead_code, reason = "it only has to be there")]
        findings_in_all: u64,
    }
    let mut text = Vec::new();
    let read = file.take(LONGEST_REPORT).read_to_end(&mut text);
    read.is_ok() && (text.is_empty() || serde_json::from_slice::<Parts>(&text).is_ok())
}

/// Writes `bytes` to a file at `path`, unless it has exactly this content already.
///
/// # Errors
/// Something else is there, which is left as it is, or the folder cannot be written.
pub fn write_once(path: &Path, bytes: &[u8]) -> Result<()> {
    match exclusive(path) {
        Ok(mut file) => file.write_all(bytes).inspect_err(|_| {
            // A partial file is of no use to anybody.
            let _ = fs::remove_file(path);
        })?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mut there = Vec::new();
            let most = bytes.len() as u64 + 1;
            open_plain(path)?.take(most).read_to_end(&mut there)?;
            if there != bytes {
                bail!(
                    "there is another file already, which is left as it is: name another path, or remove it"
                );
            }
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Creates a file where nothing exists.
fn exclusive(path: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.write(true).create_new(true);
    how.custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Opens an existing file for reading, if it is a plain file.
fn open_plain(path: &Path) -> Result<File> {
    let mut how = OpenOptions::new();
    // So that it does not wait for the other end of a pipe.
    how.read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = how.open(path).context(
        "there is something already that cannot be read as a file: name another path, or remove it",
    )?;
    if !file.metadata()?.is_file() {
        bail!("there is something already that is no file: name another path, or remove it");
    }
    Ok(file)
}

/// Creates a file in the folder of `path`, whose name is that of `path` with an unpredictable
/// ending.
///
/// # Errors
/// The folder cannot be written.
pub fn part_beside(path: &Path) -> Result<(PathBuf, File)> {
    /// A name may be taken by chance; a few times in a row it is not chance.
    const TRIES: usize = 8;
    let mut last = None;
    for _ in 0..TRIES {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(
            ".{:016x}.tmp",
            RandomState::new().build_hasher().finish()
        ));
        let part = path.with_file_name(name);
        match exclusive(&part) {
            Ok(file) => return Ok((part, file)),
            Err(error) => last = Some((part, error)),
        }
    }
    let (part, error) = last.context("no name was tried")?;
    Err(error).with_context(|| format!("creating {}", part.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use vmm_sys_util::tempdir::TempDir;

    fn folder() -> TempDir {
        TempDir::new_with_prefix(std::env::temp_dir().join("e810-files-")).unwrap()
    }

    fn names(folder: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(folder.as_path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_report_replaces_reports_and_nothing_else() {
        let folder = folder();
        let path = folder.as_path().join("r.json");
        // The former names of parts.
        let bystander = folder.as_path().join("r.new");
        fs::write(&bystander, "precious").unwrap();
        let mut report = ReportFile::create(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        for users in 0..3 {
            let seen = ServerReport {
                findings_in_all: users,
                ..ServerReport::default()
            };
            report.write(&seen).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert!(
                text.contains(&format!("\"findings_in_all\": {users}")),
                "{text}"
            );
        }
        // For the next server, and after a clean-up.
        let mut report = ReportFile::create(&path).unwrap();
        fs::remove_file(&path).unwrap();
        report.write(&ServerReport::default()).unwrap();
        report.write(&ServerReport::default()).unwrap();
        assert_eq!(names(&folder), ["r.json", "r.new"]);
        assert_eq!(fs::read(&bystander).unwrap(), b"precious");
        // Another file took its place.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "{}").unwrap();
        assert!(report.write(&ServerReport::default()).is_err());
        assert!(ReportFile::create(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"{}");
        assert_eq!(names(&folder), ["r.json", "r.new"]);
    }

    #[test]
    fn a_file_made_in_place_of_a_removed_report_is_not_replaced() {
        let folder = folder();
        let path = folder.as_path().join("r.json");
        // Many times, because file systems may reuse an inode number at once, or not.
        for _ in 0..100 {
            let mut report = ReportFile::create(&path).unwrap();
            report.write(&ServerReport::default()).unwrap();
            fs::remove_file(&path).unwrap();
            fs::write(&path, "precious").unwrap();
            assert!(report.write(&ServerReport::default()).is_err());
            assert_eq!(fs::read(&path).unwrap(), b"precious");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn links_are_not_followed() {
        let folder = folder();
        let victim = folder.as_path().join("victim");
        fs::write(&victim, "").unwrap();
        let link = folder.as_path().join("link");
        symlink(&victim, &link).unwrap();
        assert!(ReportFile::create(&link).is_err());
        assert!(write_once(&link, b"package").is_err());
        let dangling = folder.as_path().join("dangling");
        symlink(folder.as_path().join("nowhere"), &dangling).unwrap();
        assert!(ReportFile::create(&dangling).is_err());
        assert!(write_once(&dangling, b"package").is_err());
        assert!(ReportFile::create(folder.as_path()).is_err());
        // A file that takes a report's place.
        let path = folder.as_path().join("r.json");
        let mut report = ReportFile::create(&path).unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&victim, &path).unwrap();
        assert!(report.write(&ServerReport::default()).is_err());
        assert_eq!(fs::read(&victim).unwrap(), b"");
        assert_eq!(names(&folder), ["dangling", "link", "r.json", "victim"]);
    }

    #[test]
    fn a_file_is_written_once() {
        let folder = folder();
        let path = folder.as_path().join("ice.pkg");
        write_once(&path, b"package").unwrap();
        write_once(&path, b"package").unwrap();
        for other in [&b"pack"[..], b"packages", b"", b"a card's own"] {
            fs::write(&path, other).unwrap();
            assert!(write_once(&path, b"package").is_err());
            assert_eq!(fs::read(&path).unwrap(), other);
        }
    }
}
