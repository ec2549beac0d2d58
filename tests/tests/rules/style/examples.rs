//! Crates whose examples nobody runs have none.

use std::fs;
use std::path::Path;

use e810_tests::sources::{files, root};

/// Whether a manifest switches the tests of documentation off.
fn runs_no_examples(manifest: &str) -> bool {
    manifest
        .lines()
        .any(|line| line.trim() == "doctest = false")
}

/// Lines of documentation with which an example begins that rustdoc would run.
fn examples(text: &str) -> Vec<usize> {
    let mut inside = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let start = line.trim_start();
        let doc = start
            .strip_prefix("///")
            .or_else(|| start.strip_prefix("//!"));
        let fence = doc.and_then(|doc| doc.trim().strip_prefix("```"));
        let Some(language) = fence else { continue };
        inside = !inside;
        if inside && !["text", "c", "console", "json", "ignore"].contains(&language) {
            found.push(number);
        }
    }
    found
}

fn complaints(folder: &Path) -> Vec<String> {
    let text = |path: &Path| fs::read_to_string(path).expect("a source");
    if !runs_no_examples(&text(&folder.join("Cargo.toml"))) {
        return Vec::new();
    }
    let sources = files(&folder.join("src"), &["rs"]);
    let all = sources.iter().flat_map(|path| {
        let at = |line: usize| format!("{}:{line}", path.display());
        examples(&text(path)).into_iter().map(at)
    });
    all.collect()
}

#[test]
fn every_example_is_run() {
    let mut switched_off = 0;
    let mut found = Vec::new();
    for manifest in files(&root(), &["toml"]) {
        let folder = manifest.parent().expect("the folder of a file");
        if manifest.ends_with("Cargo.toml") && folder.join("src").is_dir() {
            let text = fs::read_to_string(&manifest).expect("a manifest");
            switched_off += usize::from(runs_no_examples(&text));
            found.extend(complaints(folder));
        }
    }
    assert!(switched_off > 3, "the manifests are not where this looks");
    assert!(
        found.is_empty(),
        "examples that no test runs (doctest = false in the crate's Cargo.toml):\n{}",
        found.join("\n")
    );
}

#[test]
fn an_example_is_seen() {
    let text =
        "/// ```\n/// a();\n/// ```\n//! ```text\n//! b\n//! ```\n// ```\n    /// ```no_run\n";
    assert_eq!(examples(text), [1, 8]);
}
