//! The modules of `driver`, as docs/architecture.md describes them: bring-up uses
//! the control path, which uses the LAN side and what programs hold, and none of
//! these uses what comes before it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use e810_tests::sources::{code, shipped, sources};

/// Each module of `driver` and what it may use of the others. What it uses stands
/// before it in the table, so there is no cycle.
const MODULES: &[(&str, &[&str])] = &[
    // Values: numbers, addresses, settings, errors.
    ("fast_reg", &[]),
    ("unsupported", &[]),
    ("limits", &[]),
    ("route", &[]),
    ("stage", &[]),
    ("stats", &[]),
    ("ref_counts", &[]),
    ("monitoring", &[]),
    ("error", &["unsupported", "stage"]),
    ("addr", &["error", "limits"]),
    ("channel", &["error"]),
    ("errno", &["error"]),
    ("ids", &["error"]),
    ("pd", &[]),
    ("mr", &["error", "pd", "unsupported"]),
    ("tuning", &["error"]),
    ("config", &["addr", "tuning"]),
    ("moderation", &["config"]),
    ("port", &["addr"]),
    // What programs hold.
    ("handover", &[]),
    (
        "cq",
        &["channel", "error", "handover", "moderation", "monitoring"],
    ),
    ("events", &["channel", "moderation", "monitoring"]),
    ("attr", &["addr", "cq", "mr", "tuning"]),
    ("ah", &["addr", "attr", "route"]),
    ("qp", &["attr", "error", "handover", "route", "tuning"]),
    // The function's LAN side.
    ("lan", &["error"]),
    // The control path.
    (
        "control",
        &[
            "addr",
            "attr",
            "channel",
            "cq",
            "config",
            "error",
            "events",
            "handover",
            "fast_reg",
            "ah",
            "ids",
            "unsupported",
            "lan",
            "limits",
            "mr",
            "moderation",
            "pd",
            "qp",
            "port",
            "route",
            "stats",
            "tuning",
            "ref_counts",
            "monitoring",
        ],
    ),
    // What stands on it.
    (
        "bring_up",
        &[
            "addr", "config", "control", "error", "events", "lan", "stage",
        ],
    ),
    ("connect", &["addr", "attr", "control", "error", "mr", "qp"]),
    ("progress", &["control", "error", "events"]),
    (
        "memory_budget",
        &[
            "attr",
            "channel",
            "config",
            "control",
            "events",
            "handover",
            "ids",
            "lan",
            "limits",
            "moderation",
        ],
    ),
    (
        "polling",
        &["channel", "cq", "control", "error", "moderation"],
    ),
];

/// The path of the module that a file is, below `driver/src`.
fn module_path(file: &Path) -> Vec<String> {
    let mut path: Vec<String> = file
        .with_extension("")
        .iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    if path
        .last()
        .is_some_and(|name| name == "mod" || name == "lib")
    {
        path.pop();
    }
    path
}

/// Identifiers and punctuation; `::` is one token.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let length = if is_word(first) {
            rest.find(|letter| !is_word(letter)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

/// What `code`, which is in the module `path`, names of the root of its crate: the
/// first name of each path that begins there.
fn names_of_root<'a>(path: &[String], code: &'a str) -> Vec<&'a str> {
    let tokens = tokens(code);
    let mut names = Vec::new();
    let mut rest = tokens.as_slice();
    while let [first, after @ ..] = rest {
        rest = after;
        let supers = match *first {
            "crate" => path.len(),
            "super" => 1,
            _ => continue,
        };
        let mut left = path.len() - supers.min(path.len());
        while let ["::", "super", after @ ..] = rest {
            left = left.saturating_sub(1);
            rest = after;
        }
        if left == 0
            && let ["::", after @ ..] = rest
        {
            names.extend(first_names(after));
        }
    }
    names
}

/// The first name of a path, or of each path in braces.
fn first_names<'a>(path: &[&'a str]) -> Vec<&'a str> {
    let ["{", group @ ..] = path else {
        return path.first().copied().into_iter().collect();
    };
    let mut names = Vec::new();
    let (mut depth, mut begins) = (1, true);
    for token in group {
        match *token {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 1 => begins = true,
            name if begins => {
                names.push(name);
                begins = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

/// What is wrong with what one file uses.
fn complaints(file: &Path, text: &str) -> Vec<String> {
    let path = module_path(file);
    let Some(module) = path.first() else {
        // The root declares the modules and exports what is public in them.
        return Vec::new();
    };
    let Some((_, may_use)) = MODULES.iter().find(|(known, _)| known == module) else {
        return vec![format!(
            "{module} is a module that the table of this test does not know: give it a place"
        )];
    };
    let lines: Vec<&str> = code(text).into_iter().map(|(_, line)| line).collect();
    let code = lines.join("\n");
    let names: BTreeSet<&str> = names_of_root(&path, &code).into_iter().collect();
    let file = file.display();
    names
        .into_iter()
        .filter(|name| name != module && !may_use.contains(name))
        .map(|name| {
            if MODULES.iter().any(|(known, _)| *known == name) {
                format!("{file}: {module} must not use {name}")
            } else {
                format!("{file}: crate::{name} is no module: name the module that it is in")
            }
        })
        .collect()
}

#[test]
fn modules_of_the_driver_use_only_what_lies_below_them() {
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../driver/src"));
    let files = shipped(sources(source));
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("a source file");
        let file = file.strip_prefix(source).expect("a file of the driver");
        seen.extend(module_path(file).into_iter().next());
        wrong.extend(complaints(file, &text));
    }
    for (module, _) in MODULES {
        assert!(seen.contains(*module), "{module} is gone");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_of_modules_has_no_cycle() {
    let mut before = BTreeSet::new();
    for (module, may_use) in MODULES {
        for used in *may_use {
            assert!(before.contains(used), "{module} uses {used}");
        }
        assert!(before.insert(module), "{module} stands twice");
    }
}

#[test]
fn a_module_that_uses_what_it_must_not_is_seen() {
    let lan = |text| complaints(Path::new("lan/rules.rs"), text);
    let fine = "\
//! Says nothing of `crate::bring_up`.
use super::Vsi;
use crate::error::Result;
pub(in crate::lan) const RULES: usize = 2;
#[cfg(test)]
use crate::control::Control;
";
    assert_eq!(lan(fine), Vec::<String>::new());
    assert_eq!(
        lan("use crate::control::Control;\nfn f(_: crate::bring_up::Ready) {}\n"),
        [
            "lan/rules.rs: lan must not use bring_up",
            "lan/rules.rs: lan must not use control",
        ]
    );
    assert_eq!(
        lan("use crate::{\n    control::{Control, error},\n    error::Error,\n    qp::Qp,\n};\n"),
        [
            "lan/rules.rs: lan must not use control",
            "lan/rules.rs: lan must not use qp",
        ]
    );
    assert_eq!(
        lan("use super::super::bring_up as up;\n"),
        ["lan/rules.rs: lan must not use bring_up"]
    );
    let whole = |text| complaints(Path::new("lan/mod.rs"), text);
    assert_eq!(
        whole("use super::control;\n"),
        ["lan/mod.rs: lan must not use control"]
    );
    assert_eq!(
        complaints(Path::new("control/qp_recovery.rs"), "use crate::Control;\n"),
        ["control/qp_recovery.rs: crate::Control is no module: name the module that it is in"]
    );
    assert_eq!(
        complaints(Path::new("newcomer.rs"), ""),
        ["newcomer is a module that the table of this test does not know: give it a place"]
    );
}
