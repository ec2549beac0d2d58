//! The library of this package, for tests of it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds it, which cargo does not do for a test, and says where it is: beside the test.
pub(crate) fn built() -> PathBuf {
    let test = env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", env!("CARGO_PKG_NAME")]);
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    assert!(built.unwrap().success(), "cargo build");
    folder.join("libe810_verbs_so.so")
}
