//! The library of this package, for tests of it.

use std::env;
use std::path::{Path, PathBuf};

/// Where cargo puts the library of a package whose tests it builds: beside the test.
pub(crate) fn path() -> PathBuf {
    let test = env::current_exe().unwrap();
    test.parent()
        .map(|folder: &Path| folder.join("libe810_verbs_so.so"))
        .unwrap()
}
