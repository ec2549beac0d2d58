//! What the documents name exists: files, functions of files, and names of Rust.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use e810_tests::sources::{files, root, sources};

use crate::{name, read};

/// Documents about trees of another time, or of another project.
const ELSEWHERE: [&str; 3] = ["CHANGELOG.md", "docs/reference", "docs/decisions"];

/// What Rust itself has.
const OF_RUST: [&str; 8] = [
    "Clone", "Display", "Err", "None", "Ok", "Option", "Some", "Sync",
];

/// What the name of an item follows.
const DEFINES: [&str; 9] = [
    "struct", "enum", "trait", "type", "union", "fn", "const", "static", "mod",
];

/// What a text has in backticks, outside its blocks of code.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.split("```").step_by(2).flat_map(str::lines);
    lines.flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Fails if what the documents name is not there, or if they name less than `least`.
fn assert_there(
    least: usize,
    named: impl Fn(&str) -> Vec<String>,
    is_there: impl Fn(&Path, &str) -> bool,
) {
    let mut documents = files(&root(), &["md"]);
    documents.retain(|path| !ELSEWHERE.iter().any(|begin| name(path).starts_with(begin)));
    let (mut seen, mut missing) = (0, Vec::new());
    for path in documents {
        let folder = path.parent().expect("a document is in a folder");
        for named in named(&read(&path)) {
            seen += 1;
            if !is_there(folder, &named) {
                missing.push(format!("{}: `{named}`", name(&path)));
            }
        }
    }
    assert!(missing.is_empty(), "not there:\n{}", missing.join("\n"));
    assert!(seen > least, "only {seen} names are found");
}

/// `a{b,c}d` as `abd` and `acd`.
fn alternatives(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(before, rest)| {
        let (choices, after) = rest.split_once('}')?;
        Some((before, choices, after))
    });
    let Some((before, choices, after)) = parts else {
        return vec![path.to_owned()];
    };
    let whole = |choice| alternatives(&format!("{before}{choice}{after}"));
    choices.split(',').flat_map(whole).collect()
}

/// Whether `name` is that of `segment`, in which `*` and a word in capitals stand for
/// anything.
fn matches(segment: &str, name: &str) -> bool {
    let stem = segment.split('.').next().unwrap_or_default();
    let is_any = stem.len() > 1 && stem.chars().all(|c| c.is_ascii_uppercase());
    let pattern = match is_any && segment != "README.md" && segment != "CHANGELOG.md" {
        true => segment.replacen(stem, "*", 1),
        false => segment.to_owned(),
    };
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let after = after.trim_start_matches('*');
    name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
}

/// Whether something below `folder` is called `path`.
fn exists(folder: &Path, path: &str) -> bool {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let next = |folder: &Path| rest.is_empty() || exists(folder, rest);
    match first {
        "" | "." => return next(folder),
        ".." => return folder.parent().is_some_and(next),
        // Any depth; what follows is not looked at.
        "**" => return true,
        _ => {}
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries = entries.filter(|entry| matches(first, &entry.file_name().to_string_lossy()));
    entries.any(|entry| next(&entry.path()))
}

/// The targets of links, and the paths in backticks that have a `/`.
fn paths(text: &str) -> Vec<String> {
    let prose = text.split("```").step_by(2);
    let links = prose.flat_map(|prose| prose.split("](").skip(1));
    let links = links.filter_map(|link| link.split(')').next());
    let links = links.filter(|link| !link.contains("://"));
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "_.-/{},*".contains(c);
    links
        .map(|link| format!("./{link}"))
        .chain(quoted(text).map(str::to_owned))
        .filter_map(|path| Some(path.split(['#', ':']).next()?.to_owned()))
        .filter(|path| path.contains('/') && path.chars().all(is_of_path))
        .flat_map(|path| alternatives(&path))
        .collect()
}

/// Whether a document in `folder` names a file that exists, or one that is not of this tree.
fn is_file(folder: &Path, path: &str) -> bool {
    let places = [root(), folder.to_owned()];
    let first = path.split('/').next().unwrap_or_default();
    let is_ours = places.iter().any(|place| place.join(first).is_dir());
    let is_other = !is_ours || first.is_empty() || first == "target";
    is_other || places.iter().any(|place| exists(place, path))
}

/// Functions, as `file.rs::name`.
fn functions(text: &str) -> Vec<String> {
    let functions = quoted(text).filter(|name| name.contains(".rs::"));
    functions.map(str::to_owned).collect()
}

/// Whether one of the files that are called so, in whatever folder, has the function.
fn is_function(sources: &[PathBuf], function: &str) -> bool {
    let (file, path) = function.split_once("::").unwrap_or_default();
    let name = path.rsplit("::").next().unwrap_or_default();
    let mut files = sources.iter().filter(|source| source.ends_with(file));
    files.any(|file| {
        let text = read(file);
        text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<"))
    })
}

/// Names of Rust: a path, or one word that is written as types and traits are. `Type::create_*`
/// is each that begins so.
fn rust_names(text: &str) -> Vec<String> {
    let is_word = |part: &str| {
        let part = part.trim_end_matches('*');
        let is_number = part.starts_with(|c: char| c.is_ascii_digit());
        !part.is_empty() && !is_number && part.chars().all(is_of_word)
    };
    let names = quoted(text)
        .filter(|name| name.split("::").all(is_word) && (name.contains("::") || is_camel(name)));
    names.map(str::to_owned).collect()
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_camel(name: &str) -> bool {
    let is_upper = name.starts_with(|c: char| c.is_ascii_uppercase());
    is_upper && !name.contains('_') && name.contains(|c: char| c.is_ascii_lowercase())
}

/// The words of all sources, and those of them that are names of items.
fn words_and_items() -> (BTreeSet<String>, BTreeSet<String>) {
    let mut words = BTreeSet::new();
    let mut items: BTreeSet<String> = OF_RUST.map(str::to_owned).into();
    for path in sources(&root()) {
        let text = read(path);
        let mut last = "";
        let found = text.split(|c: char| !is_of_word(c));
        for word in found.filter(|word| !word.is_empty()) {
            if DEFINES.contains(&last) {
                items.insert(word.to_owned());
            }
            words.insert(word.to_owned());
            last = word;
        }
    }
    (words, items)
}

#[test]
fn files_in_documents_exist() {
    assert_there(800, paths, is_file);
}

#[test]
fn functions_in_documents_exist() {
    let sources = sources(&root());
    assert_there(100, functions, |_, name| is_function(&sources, name));
}

#[test]
fn names_in_documents_exist() {
    let (words, items) = words_and_items();
    let is_known = |part: &str| match part.strip_suffix('*') {
        Some(begin) => words.iter().any(|word| word.starts_with(begin)),
        None => words.contains(part),
    };
    assert_there(300, rust_names, |_, name| {
        let first = name.split("::").next().unwrap_or_default();
        (!is_camel(first) || items.contains(first)) && name.split("::").all(is_known)
    });
}

#[test]
fn a_wrong_file_or_function_is_seen() {
    let wrong = |text: &str| {
        let mut paths = paths(text);
        paths.retain(|path| !is_file(&root().join("docs"), path));
        paths
    };
    let right = "`hal/src/regs/FAMILY.rs`, `cqp/src/{error,ring}.rs`, `sim/src/pe/cqp/*_ops.rs`, \
                 [index](README.md), [a](../docs/events.md#part), `Qp/post`, `a / b`";
    assert_eq!(wrong(right), [""; 0]);
    let text = "`hal/src/none.rs` `cqp/src/{error,none}.rs` `sim/src/NAME/*_none.rs`";
    let missing = [
        "hal/src/none.rs",
        "cqp/src/none.rs",
        "sim/src/NAME/*_none.rs",
    ];
    assert_eq!(wrong(text), missing);
    let links = "[a](none.md) [b](../docs/none.md#part)";
    assert_eq!(wrong(links), ["./none.md", "./../docs/none.md"]);
    let sources = sources(&root());
    assert!(is_function(&sources, "rules/names.rs::alternatives"));
    assert!(!is_function(&sources, "hal/src/le.rs::none"));
}

#[test]
fn what_is_a_name_of_rust() {
    let text =
        "`Bus` and `read32`, `Off::X` `a/B` `--json` `Control::create_*`\n```\n`Code`\n```\n`RC`";
    assert_eq!(rust_names(text), ["Bus", "Off::X", "Control::create_*"]);
}
