//! Nobody switches off what the compiler and clippy check, and the core is free of what they do not
//! look for.

use e810_tests::sources::{code, root, shipped, sources};

use crate::arrows::crates;
use crate::{CORE, name, read};

/// Lints of Cargo.toml that the core has no exception from.
const LINTS: [&str; 7] = [
    "allow_attributes",
    "dbg_macro",
    "expect_used",
    "panic",
    "todo",
    "unimplemented",
    "unwrap_used",
];

/// What the core must not have, and no lint of Cargo.toml finds. A crate that is `no_std` has
/// neither `alloc` nor `std` without `extern crate`.
const NO_LINT: [&str; 2] = ["unreachable!(", "extern crate"];

/// Crates of programs. They have unsafe code in `UNSAFE_FILES` alone.
const SAFE: [&str; 6] = ["card", "node", "report", "sim/wire", "trace", "vfio-host"];

/// They call the system where `std` has no function for it.
const UNSAFE_FILES: [&str; 2] = ["sim/wire/src/socket.rs", "vfio-host/src/output/terminal.rs"];

/// The compiled lines of a crate, without its tests, each with the name of its file.
fn lines(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in shipped(sources(&root().join(folder).join("src"))) {
        let text = read(&path);
        let lines = code(&text).into_iter();
        found.extend(lines.map(|(_, line)| (name(&path), line.trim().to_owned())));
    }
    found
}

#[test]
fn the_lints_are_on_in_every_crate() {
    let manifest = read("Cargo.toml");
    for lint in LINTS {
        let line = format!("\n{lint} = \"warn\"\n");
        assert!(manifest.contains(&line), "Cargo.toml: {lint}");
    }
    for folder in crates().keys() {
        let manifest = read(format!("{folder}/Cargo.toml"));
        let is_on = manifest.contains("\n[lints]\nworkspace = true\n");
        assert!(is_on, "{folder}/Cargo.toml: [lints]");
    }
}

#[test]
fn the_core_needs_no_system_and_has_no_unsafe_code() {
    for folder in CORE {
        let text = read(format!("{folder}/src/lib.rs"));
        let says = |line: &str| code(&text).iter().any(|(_, code)| code.trim() == line);
        assert!(says("#![no_std]"), "{folder}: #![no_std]");
        let may_have_unsafe_code = folder == "hal";
        let forbids = says("#![forbid(unsafe_code)]");
        assert!(forbids != may_have_unsafe_code, "{folder}: unsafe code");
    }
}

#[test]
fn the_core_has_nothing_that_panics_and_no_exception_from_lints() {
    let mut unwanted = NO_LINT.map(str::to_owned).to_vec();
    unwanted.extend(LINTS.map(|lint| format!("clippy::{lint}")));
    let lines: Vec<_> = CORE.into_iter().flat_map(lines).collect();
    for (file, line) in &lines {
        let is_wanted = !unwanted.iter().any(|word| line.contains(word));
        assert!(is_wanted, "{file}: {line}");
    }
    assert!(lines.len() > 10_000, "only {} lines", lines.len());
}

#[test]
fn crates_of_programs_have_unsafe_code_where_it_may_be() {
    let mut found: Vec<_> = SAFE.into_iter().flat_map(lines).collect();
    found.retain(|(_, line)| line.contains("unsafe ") || line.contains("unsafe("));
    let mut files: Vec<_> = found.into_iter().map(|(file, _)| file).collect();
    files.dedup();
    assert_eq!(files, UNSAFE_FILES);
}
