//! Host probing: PCI functions, IOMMU groups and limits, from sysfs and procfs.
//!
//! Everything is read from files below a root, `/` outside of tests, so that a folder can stand for
//! a machine. Reading never fails: what cannot be read is absent, and the caller says what that
//! means.

pub mod binding;
pub mod card;
pub mod clock;
pub mod cpus;
pub mod dependents;
pub mod device_nodes;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
pub mod folder;
pub mod group;
pub mod identity;
pub mod kernel;
pub mod kernel_log;
pub mod limits;
pub mod package;
pub mod pci;
pub mod plain;
pub mod process;
pub mod resource;
pub mod routes;
pub mod secure_exec;
pub mod socket;
pub mod user_folder;

use std::fs;
use std::path::{Path, PathBuf};

/// A machine, by the folder its `/sys`, `/proc`, `/dev` and `/run` are in.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Self::new("/")
    }
}

impl Host {
    /// The machine whose file system begins at `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The file that has `path` on the machine.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Whether there is such a file or folder.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The text of a file without the white space around it. Bytes that are not UTF-8 are replaced:
    /// a name that somebody chose must not hide the whole file.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        read(&self.path(path))
    }

    /// The names in a folder, sorted; none if there is no such folder.
    #[must_use]
    pub fn names(&self, path: &str) -> Vec<String> {
        names(&self.path(path))
    }
}

fn read(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}

/// The last part of what a symbolic link points to.
pub(crate) fn link_name(path: &Path) -> Option<String> {
    let target = fs::read_link(path).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}
