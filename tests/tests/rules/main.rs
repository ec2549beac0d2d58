//! What holds of this tree itself: its sources, documents, dependencies and machine code.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use e810_tests::sources::root;

mod arrows;
mod asm;
mod assumptions;
mod citations;
mod findings;
mod names;
mod style;

/// The folders of the crates that need no operating system.
const CORE: [&str; 11] = [
    "types", "hal", "adminq", "cqp", "ceq", "datapath", "lan", "net", "cm", "driver", "connect",
];

/// The text of a file, whose path begins at the root of the tree.
fn read(file: impl AsRef<Path>) -> String {
    let path = root().join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A path of this tree as it is named from the root.
fn name(path: &Path) -> String {
    let name = path.strip_prefix(root()).expect("a path of this tree");
    name.display().to_string()
}

/// Fails unless a page says exactly what it must say.
fn assert_page(page: &str, said: &BTreeSet<String>, must: &BTreeSet<String>) {
    let missing: Vec<_> = must.difference(said).collect();
    let wrong: Vec<_> = said.difference(must).collect();
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "{page}: missing {missing:#?}, wrong {wrong:#?}"
    );
}
