//! One line length: rustfmt holds that of code, this test that of comments.

use std::fs;

use e810_tests::sources::{files, root};

/// Characters of a line.
const MOST: usize = 100;

/// Comments that are longer, in a source.
fn too_long(text: &str) -> Vec<usize> {
    let mut example = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let start = line.trim_start();
        // An example is code, which nobody wraps; a table has a row a line.
        let doc = start.trim_start_matches(['/', '!']).trim_start();
        if start.starts_with("//") && doc.starts_with("```") {
            example = !example;
        }
        let is_free = example || doc.starts_with('|');
        if start.starts_with("//") && !is_free && line.chars().count() > MOST {
            found.push(number);
        }
    }
    found
}

#[test]
fn comments_are_as_long_as_code() {
    let mut complaints = Vec::new();
    for path in files(&root(), &["rs"]) {
        let text = fs::read_to_string(&path).expect("a source");
        let lines = too_long(&text);
        complaints.extend(
            lines
                .iter()
                .map(|line| format!("{}:{line}", path.display())),
        );
    }
    assert!(
        complaints.is_empty(),
        "longer than {MOST}:\n{}",
        complaints.join("\n")
    );
}

#[test]
fn a_comment_that_is_too_long_is_seen() {
    let long = "x".repeat(MOST);
    assert_eq!(
        too_long(&format!("let a;\n    // {long}\n/// | {long}\n")),
        [2]
    );
    assert_eq!(
        too_long(&format!("/// ```\n/// {long}\n/// ```\n//! {long}\n")),
        [4]
    );
    assert_eq!(too_long(&format!("let text = \"{long}\";")), [0; 0]);
}
