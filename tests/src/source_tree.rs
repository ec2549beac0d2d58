//! The files of this repository, for tests that read them.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that are not sources: what builds, tools and downloads leave.
const NOT_SOURCES: &[&str] = &["target", ".git", "corpus", "artifacts"];

/// The root of the workspace.
///
/// # Panics
///
/// When this crate does not lie in a workspace.
#[must_use]
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the workspace").to_owned()
}

/// All files below `folder` whose names end in one of `extensions`, sorted; build
/// folders are left out.
///
/// # Panics
///
/// When a folder cannot be read.
#[must_use]
pub fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("a folder entry").path();
            let name = path.file_name().and_then(|name| name.to_str());
            if path.is_dir() {
                if !name.is_some_and(|name| NOT_SOURCES.contains(&name)) {
                    folders.push(path);
                }
            } else if path
                .extension()
                .and_then(|extension| extension.to_str())
                .is_some_and(|extension| extensions.contains(&extension))
            {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
