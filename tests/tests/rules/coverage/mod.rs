//! `docs/seed-coverage.md` against the sources, and against the texts that it covers.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod rows;
mod sentences;

use std::fs;
use std::path::{Path, PathBuf};

const DOCUMENT: &str = "docs/seed-coverage.md";

fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the workspace").to_owned()
}

fn text() -> String {
    fs::read_to_string(root().join(DOCUMENT)).expect("the document")
}
