//! Cheap facts about the sources that no lint holds.
//!
//! The core runs without an operating system, without an allocator and
//! without a way to panic; unsafe code is in `hal` and in the backends only, but for one line of
//! the command. Clippy and `#![forbid]` hold most of that as long as nobody switches them
//! off; this test sees that nobody does.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod errata;
mod names;
mod paths;

use std::fs;
use std::path::{Path, PathBuf};

use e810_tests::sources::{code, root, shipped, sources, test_modules};

/// Crates without an operating system, by folder; those that do not exist yet
/// are passed over.
const CORE: &[&str] = &[
    "types", "hal", "adminq", "cqp", "ceq", "datapath", "lan", "net", "driver",
];

/// The only core crate with unsafe code.
const UNSAFE: &str = "hal";

/// What must not stand in the code of the core, outside its tests.
const NOT_IN_CORE: &[&str] = &[
    ".unwrap()",
    ".expect(",
    "panic!(",
    "unreachable!(",
    "todo!(",
    "unimplemented!(",
    "dbg!(",
    "extern crate alloc",
    "extern crate std",
    "alloc::",
    "std::",
    "#[allow(",
];

/// What must not stand anywhere.
const NOWHERE: &[&str] = &["todo!(", "unimplemented!(", "dbg!("];

fn core() -> Vec<(&'static str, PathBuf)> {
    let found: Vec<_> = CORE
        .iter()
        .map(|folder| (*folder, root().join(folder).join("src")))
        .filter(|(_, source)| source.is_dir())
        .collect();
    assert!(found.len() >= 5, "the core is not where this test looks");
    found
}

/// Where any of `unwanted` stands in the compiled lines of `files`.
fn findings(files: &[PathBuf], unwanted: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    for path in files {
        let text = fs::read_to_string(path).expect("a source file");
        for (number, line) in code(&text) {
            // `core::panic` and a name that merely ends like `std` are fine.
            let hit = unwanted.iter().find(|word| {
                line.match_indices(**word).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    word.starts_with(['.', '#'])
                        || !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
                })
            });
            if let Some(word) = hit {
                findings.push(format!("{}:{number}: {word}", path.display()));
            }
        }
    }
    findings
}

#[test]
fn the_core_says_that_it_needs_no_system_and_no_unsafe_code() {
    for (folder, source) in core() {
        let text = fs::read_to_string(source.join("lib.rs")).expect("lib.rs");
        let says = |line: &str| code(&text).iter().any(|(_, code)| code.trim() == line);
        assert!(says("#![no_std]"), "{folder}/src/lib.rs lacks #![no_std]");
        assert_eq!(
            says("#![forbid(unsafe_code)]"),
            folder != UNSAFE,
            "{folder}/src/lib.rs: #![forbid(unsafe_code)]"
        );
    }
}

#[test]
fn the_core_has_no_way_to_panic_and_nothing_left_open() {
    let files: Vec<PathBuf> = core()
        .iter()
        .flat_map(|(_, source)| shipped(sources(source)))
        .collect();
    assert!(files.len() > 50, "only {} files of the core", files.len());
    let findings = findings(&files, NOT_IN_CORE);
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn nothing_is_left_open_anywhere() {
    let files: Vec<PathBuf> = ["sim", "backends", "vfio-host", "tests"]
        .iter()
        .flat_map(|folder| sources(&root().join(folder)))
        .filter(|path| !path.ends_with(file!()))
        .collect();
    let findings = findings(&files, NOWHERE);
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// What the command needs of the system beside `std` is in `backends`, but for the
/// size of its terminal.
#[test]
fn the_command_has_unsafe_code_in_one_place() {
    let source = root().join("vfio-host/src");
    let text = fs::read_to_string(source.join("lib.rs")).expect("lib.rs");
    let denies = code(&text)
        .iter()
        .any(|(_, line)| line.trim() == "#![deny(unsafe_code)]");
    assert!(denies, "vfio-host/src/lib.rs lacks #![deny(unsafe_code)]");
    let with: Vec<PathBuf> = sources(&source)
        .into_iter()
        .filter(|path| {
            let text = fs::read_to_string(path).expect("a source file");
            let lines = code(&text);
            lines.iter().any(|(_, line)| line.contains("unsafe {"))
        })
        .collect();
    assert_eq!(with, [source.join("output/terminal.rs")]);
}

/// The room that calls a C library has unsafe code in many files, which no
/// other room outside `hal` and the backends has: each says so at its top.
#[test]
fn unsafe_code_beside_the_provider_library_is_announced() {
    let mut announced = 0;
    for path in sources(&root().join("tests/peer/src")) {
        let text = fs::read_to_string(&path).expect("a source file");
        let has = code(&text)
            .iter()
            .any(|(_, line)| line.contains("unsafe ") && !line.contains("unsafe extern"));
        let says = text.contains("\n// UNSAFETY: ");
        assert_eq!(has, says, "{}: // UNSAFETY", path.display());
        announced += usize::from(says);
    }
    assert!(announced > 5, "the room is not where this test looks");
}

#[test]
fn the_reader_of_sources_knows_tests_and_comments() {
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
    let lines: Vec<&str> = code(text)
        .into_iter()
        .map(|(_, line)| line.trim())
        .collect();
    assert_eq!(
        lines,
        ["fn real() {", "let x = 1;", "done(x);", "}", "fn last() {}"]
    );
}

#[test]
fn test_modules_are_found_where_they_are_declared() {
    let text = "#[cfg(test)]\npub(crate) mod testing;\n#[cfg(test)]\nmod tests;\nmod real;\n";
    assert_eq!(
        test_modules(Path::new("a/mod.rs"), text),
        [Path::new("a/testing"), Path::new("a/tests")]
    );
    assert_eq!(
        test_modules(Path::new("a/b.rs"), text),
        [Path::new("a/b/testing"), Path::new("a/b/tests")]
    );
}
