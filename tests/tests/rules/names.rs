//! Names of Rust that the documents have in backticks.

use std::collections::BTreeSet;
use std::fs;

use e810_tests::sources::{files, root};

/// Tables of variants, without their types; tests of their own hold them.
const OF_VARIANTS: &[&str] = &["async-events.md"];

/// What Rust itself has.
const OF_RUST: &[&str] = &[
    "Clone", "Display", "Err", "None", "Ok", "Option", "Some", "Sync",
];

/// What a name of an item follows.
const DEFINES: &[&str] = &[
    "struct", "enum", "trait", "type", "union", "fn", "const", "static", "mod",
];

/// The words of a source.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// Names that a document has in backticks, outside its blocks of code: a path of Rust, or one word
/// that is written as types and traits are. `Type::create_*` is each that begins so.
fn named(document: &str) -> impl Iterator<Item = &str> {
    let prose = document.split("```").step_by(2);
    let spans = prose
        .flat_map(str::lines)
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|name| {
        let is_word = |part: &str| {
            let part = part.trim_end_matches('*');
            let mut chars = part.chars();
            chars
                .next()
                .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
                && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        name.split("::").all(is_word) && (name.contains("::") || is_camel(name))
    })
}

fn is_camel(name: &str) -> bool {
    let is_upper = name.starts_with(|c: char| c.is_ascii_uppercase());
    is_upper && !name.contains('_') && name.contains(|c: char| c.is_ascii_lowercase())
}

#[test]
fn names_in_documents_exist() {
    let root = root();
    let sources = files(&root, &["rs"]);
    let texts: Vec<String> = sources
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect();
    let known: BTreeSet<&str> = texts.iter().flat_map(|text| words(text)).collect();
    let mut defined: BTreeSet<&str> = OF_RUST.iter().copied().collect();
    for text in &texts {
        let mut words = words(text).filter(|word| !word.is_empty()).peekable();
        while let Some(word) = words.next() {
            if let (true, Some(name)) = (DEFINES.contains(&word), words.peek()) {
                defined.insert(name);
            }
        }
    }
    let exists = |name: &str| {
        let mut parts = name.split("::");
        let first = parts.next().unwrap_or_default();
        let first_is_there = match is_camel(first) {
            true => defined.contains(first),
            false => known.contains(first),
        };
        let is_known = |part: &str| match part.strip_suffix('*') {
            Some(begin) => known
                .range(begin..)
                .next()
                .is_some_and(|word| word.starts_with(begin)),
            None => known.contains(part),
        };
        first_is_there && parts.all(is_known)
    };
    let mut documents = files(&root.join("docs"), &["md"]);
    documents.retain(|path| path.parent().is_some_and(|folder| folder.ends_with("docs")));
    documents.extend(["README.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    let (mut seen, mut missing) = (0, Vec::new());
    for path in documents {
        if OF_VARIANTS.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a document");
        for name in named(&text) {
            seen += 1;
            if !exists(name) {
                missing.push(format!("{}: `{name}`", path.display()));
            }
        }
    }
    assert!(seen > 300, "{seen}");
    assert!(
        missing.is_empty(),
        "not in the sources:\n{}",
        missing.join("\n")
    );
}

#[test]
fn what_is_a_name_of_rust() {
    let text =
        "`Bus` and `read32`, `Off::X` `a/B` `--json` `Control::create_*`\n```\n`Code`\n```\n`RC`";
    let found: Vec<_> = named(text).collect();
    assert_eq!(found, ["Bus", "Off::X", "Control::create_*"]);
}
