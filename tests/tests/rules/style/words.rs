//! Words that say less than the field's own, in identifiers, file names and prose.
//!
//! docs/glossary.md has the terms in their place; CONTRIBUTING.md the rule.

use std::fs;
use std::path::Path;

use e810_tests::sources::{files, root};

/// Not a part of any identifier or file name.
const IN_NAMES: &[&str] = &[
    "told", "attend", "lack", "desk", "look", "hush", "mishap", "standing", "somebody", "whoever",
];

/// Forms of those.
const FORMS: &[&str] = &["", "s", "ed", "ing"];

/// Not in comments, documents or texts.
const IN_PROSE: &[&str] = &[
    "for who ",
    "whoever",
    "begins anew",
    "is told of",
    "as far as was looked",
];

/// The parts of a name: divided by `_`, `-`, and where a capital begins.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = '_';
    for letter in name.chars() {
        let begins = letter.is_uppercase() && before.is_lowercase();
        if begins || !letter.is_alphanumeric() {
            parts.push(String::new());
        }
        if letter.is_alphanumeric()
            && let Some(last) = parts.last_mut()
        {
            last.extend(letter.to_lowercase());
        }
        before = letter;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The word of `IN_NAMES` that a name has as a part.
fn unwanted(name: &str) -> Option<&'static str> {
    let parts = parts(name);
    IN_NAMES.iter().copied().find(|word| {
        parts.iter().any(|part| {
            FORMS
                .iter()
                .any(|form| part.strip_prefix(word) == Some(*form))
        })
    })
}

/// The identifiers of a source, with their lines: no comments, no texts.
fn identifiers(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = token(rest);
        let (token, after) = rest.split_at(length);
        let is_text = token.ends_with(['"', '#']);
        if (first.is_alphabetic() || first == '_') && !is_text {
            found.push((line, token.to_owned()));
        }
        line += token.matches('\n').count();
        rest = after;
    }
    found
}

/// Length of the comment, text, identifier or sign with which `text` begins.
fn token(text: &str) -> usize {
    let bytes = text.as_bytes();
    let end_of = |what: &str, from: usize| {
        let found = text.get(from..).and_then(|rest| rest.find(what));
        found.map_or(text.len(), |at| from + at + what.len())
    };
    if text.starts_with("//") {
        return end_of("\n", 0);
    }
    if text.starts_with("/*") {
        return end_of("*/", 2);
    }
    if let Some(rest) = text.strip_prefix('r') {
        let opened = rest.trim_start_matches('#');
        let hashes = rest.len() - opened.len();
        if opened.starts_with('"') {
            return end_of(&format!("\"{}", "#".repeat(hashes)), hashes + 2);
        }
    }
    match bytes {
        [b'"', ..] => {
            let mut at = 1;
            while let Some(byte) = bytes.get(at) {
                at += match byte {
                    b'\\' => 2,
                    b'"' => return at + 1,
                    _ => 1,
                };
            }
            text.len()
        }
        // A character; a lifetime is a sign and an identifier.
        [b'\'', b'\\', ..] => end_of("'", 3),
        [b'\'', _, b'\'', ..] => 3,
        _ => {
            let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
            match text.chars().next() {
                Some(first) if is_word(first) => {
                    text.find(|letter| !is_word(letter)).unwrap_or(text.len())
                }
                Some(first) => first.len_utf8(),
                None => 0,
            }
        }
    }
}

/// What is wrong with the names in a source.
fn names(file: &str, text: &str) -> Vec<String> {
    let found = identifiers(text).into_iter();
    found
        .filter_map(|(line, name)| {
            unwanted(&name).map(|word| format!("{file}:{line}: {name}: \"{word}\" in a name"))
        })
        .collect()
}

/// What is wrong with the prose of a file; lines that are one sentence are joined.
fn prose(file: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    // A document may name a phrase; what it names is in quotation marks.
    let is_document = file.ends_with(".md");
    let lines = text.lines().map(|line| {
        let mut line = line.to_lowercase();
        for phrase in IN_PROSE.iter().filter(|_| is_document) {
            line = line.replace(&format!("\"{phrase}\""), "");
        }
        line
    });
    let lines: Vec<String> = lines.collect();
    for (number, line) in lines.iter().enumerate() {
        let next = lines.get(number + 1).map_or("", |next| {
            next.trim_start()
                .trim_start_matches(['/', '!', '#'])
                .trim_start()
        });
        let joined = format!("{} {next}", line.trim_end());
        for phrase in IN_PROSE {
            let own = line.contains(phrase);
            let broken = joined.contains(phrase) && !next.contains(phrase);
            if own || broken {
                complaints.push(format!("{file}:{}: \"{phrase}\"", number + 1));
            }
        }
    }
    complaints
}

fn shown(path: &Path) -> String {
    let root = root();
    let below = path.strip_prefix(&root).unwrap_or(path);
    below.to_string_lossy().into_owned()
}

#[test]
fn names_are_terms_of_the_field() {
    let mut wrong = Vec::new();
    for path in files(&root(), &["rs"]) {
        let file = shown(&path);
        let text = fs::read_to_string(&path).expect("a source file");
        wrong.extend(names(&file, &text));
        wrong.extend(unwanted(&file).map(|word| format!("{file}: \"{word}\" in its name")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn prose_is_plain_technical_english() {
    let mut wrong = Vec::new();
    for path in files(&root(), &["rs", "md"]) {
        let file = shown(&path);
        // This list has the phrases itself.
        if !file.ends_with("style/words.rs") {
            wrong.extend(prose(&file, &fs::read_to_string(&path).expect("a file")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_unwanted_word_is_seen() {
    let source = "\
// told in a comment, \"quoted\"
fn is_told(lookup: &'static str, outstanding: u8) -> LookAgain {
    let c = '\"'; let text = \"attend\"; r#\"desk\"#;
    attended + lacks_credit
}
";
    assert_eq!(
        names("x.rs", source),
        [
            "x.rs:2: is_told: \"told\" in a name",
            "x.rs:2: LookAgain: \"look\" in a name",
            "x.rs:4: attended: \"attend\" in a name",
            "x.rs:4: lacks_credit: \"lack\" in a name",
        ]
    );
    assert_eq!(unwanted("sim/src/desk.rs"), Some("desk"));
    assert_eq!(unwanted("sim/src/black_box.rs"), None);
    let comment = "/// Free, as far as\n/// was looked, for whom it concerns.\n//! Whoever";
    assert_eq!(
        prose("x.rs", comment),
        ["x.rs:1: \"as far as was looked\"", "x.rs:3: \"whoever\""]
    );
}
