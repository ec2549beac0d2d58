//! The sources of this workspace, for tests that read them.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot read the sources fails by a panic"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that are not sources: what builds, tools and downloads leave.
const NOT_SOURCES: &[&str] = &["target", ".git", "corpus", "artifacts"];

/// The root of the workspace.
///
/// # Panics
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

/// The Rust files below `folder`, sorted.
///
/// # Panics
/// When a folder cannot be read.
#[must_use]
pub fn sources(folder: &Path) -> Vec<PathBuf> {
    files(folder, &["rs"])
}

/// The files of `files` that are compiled into the crate, not only into its
/// tests.
///
/// # Panics
/// When a file cannot be read.
#[must_use]
pub fn shipped(files: Vec<PathBuf>) -> Vec<PathBuf> {
    let test_modules: Vec<PathBuf> = files
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).expect("a source file");
            test_modules(path, &text)
        })
        .collect();
    files
        .into_iter()
        .filter(|path| {
            let module = path.with_extension("");
            !test_modules.iter().any(|tests| module.starts_with(tests))
        })
        .collect()
}

/// Conditions under which an item is compiled for tests only. No shipped crate enables hal's
/// feature `testing` (`tests/rules/arrows.rs`).
const FOR_TESTS: [&str; 3] = [
    "#[cfg(test)]",
    "#[cfg(feature = \"testing\")]",
    "#[cfg(any(test, feature = \"testing\"))]",
];

/// The modules that `text`, the file at `path`, declares for tests only, as
/// paths without extension.
fn test_modules(path: &Path, text: &str) -> Vec<PathBuf> {
    let folder = match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "main" | "mod") => path.parent().expect("a folder").to_owned(),
        _ => path.with_extension(""),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines
        .windows(2)
        .filter(|pair| FOR_TESTS.contains(&pair[0]))
        .filter_map(|pair| {
            let (_, name) = pair[1].strip_suffix(';')?.rsplit_once("mod ")?;
            Some(folder.join(name))
        })
        .collect()
}

/// The lines that are compiled into the crate: without comments, documentation
/// and the items under `#[cfg(test)]`, each with its number, counted from 1.
#[must_use]
pub fn code(text: &str) -> Vec<(usize, &str)> {
    let mut lines = Vec::new();
    let mut numbered = text.lines().enumerate();
    while let Some((number, line)) = numbered.next() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if FOR_TESTS.iter().any(|cfg| trimmed.starts_with(cfg)) {
            // The item ends at its first line as little indented that closes
            // something, as rustfmt writes it.
            for (_, line) in numbered.by_ref() {
                let trimmed = line.trim();
                let level = line.len() - line.trim_start().len() == indent;
                let attribute = trimmed.starts_with('#');
                if level && !attribute && (trimmed.ends_with(';') || trimmed.ends_with('}')) {
                    break;
                }
            }
            continue;
        }
        let compiled = match line.find("//") {
            Some(comment) => &line[..comment],
            None => line,
        };
        if !compiled.trim().is_empty() {
            lines.push((number + 1, compiled));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_without_tests_and_comments() {
        let text = "\
//! Call it and `.unwrap()` the answer.
fn real() {
    let x = 1; // not .unwrap()
    #[cfg(test)]
    assert_eq!(x.unwrap(), 1);
    done(x);
}
#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = \"elsewhere.rs\"]
mod more {
    fn test() {
        y.unwrap();
    }
}
fn last() {}
";
        let lines = code(text);
        let lines: Vec<_> = lines.iter().map(|(_, line)| line.trim()).collect();
        let real = ["fn real() {", "let x = 1;", "done(x);", "}", "fn last() {}"];
        assert_eq!(lines, real);
    }

    #[test]
    fn test_modules_are_found_where_they_are_declared() {
        let text = "#[cfg(test)]\npub(crate) mod testing;\n#[cfg(test)]\nmod tests;\nmod real;\n";
        let found = |path| test_modules(Path::new(path), text);
        assert_eq!(found("a/mod.rs"), ["a/testing", "a/tests"].map(Path::new));
        assert_eq!(found("a/b.rs"), ["a/b/testing", "a/b/tests"].map(Path::new));
    }
}
