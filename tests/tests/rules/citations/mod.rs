//! Every citation of the reference tables names a section that exists.
//!
//! Code and documents cite docs/reference as `control-path 4.3`, with `step 9`, `item 6`,
//! `row NAME` or `column X` behind it where one line of a table is meant. What is cited is
//! looked up in the document; a citation without a section is refused too. The name alone,
//! in backticks, is the name of a document.

#![expect(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test fails by panicking"
)]

mod cited;
mod document;

use std::fs;

use cited::{citations, joined};
use document::Document;
use e810_tests::sources::{files, root};

const DOCUMENTS: &[&str] = &[
    "control-path",
    "data-path",
    "lan-path",
    "cm-path",
    "verbs-abi",
    "field-evidence",
    "vf-path",
    "recovery-congestion",
];

fn documents() -> Vec<Document> {
    let folder = root().join("docs/reference");
    DOCUMENTS
        .iter()
        .map(|name| {
            let path = folder.join(format!("{name}.md"));
            let text = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            Document::new(name, &text)
        })
        .collect()
}

/// What is wrong with the citations of `text`, and how many there are.
fn complaints(documents: &[Document], file: &str, text: &str) -> (usize, Vec<String>) {
    let joined = joined(text);
    let found = citations(documents, &joined);
    let complaints = found
        .iter()
        .flat_map(|citation| {
            let complaint = match &citation.places {
                Err(why) => vec![why.clone()],
                Ok(places) => places
                    .iter()
                    .filter_map(|place| documents[citation.document].missing(place))
                    .collect(),
            };
            let name = documents[citation.document].name;
            complaint
                .into_iter()
                .map(move |why| format!("{file}:{}: {name}: {why}", citation.line))
        })
        .collect();
    (found.len(), complaints)
}

#[test]
fn every_citation_names_a_section_that_exists() {
    let documents = documents();
    let root = root();
    let mut cited = 0;
    let mut wrong = Vec::new();
    for path in files(&root, &["rs", "md", "s", "toml"]) {
        let shown = path.strip_prefix(&root).expect("below the root");
        // The examples below are wrong on purpose.
        if shown.starts_with("docs/reference") || shown.starts_with("tests/tests/rules/citations") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file");
        let (found, complaints) = complaints(&documents, &shown.to_string_lossy(), &text);
        cited += found;
        wrong.extend(complaints);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cited > 900, "only {cited} citations were found");
}

/// The tables cite one another as `§4.3`, `cp§4.3` or `control-path.md §4.3`.
#[test]
fn the_tables_cite_sections_that_exist() {
    let documents = documents();
    let mut wrong = Vec::new();
    let mut cited = 0;
    for document in &documents {
        let path = root().join(format!("docs/reference/{}.md", document.name));
        let text = fs::read_to_string(path).expect("a document");
        for (number, line) in text.lines().enumerate() {
            for (at, sign) in line.match_indices('§') {
                let before = line[..at].trim_end();
                let other = documents
                    .iter()
                    .find(|other| before.ends_with(&format!("{}.md", other.name)));
                let target = match other {
                    Some(other) => other,
                    None if before.ends_with("cp") => &documents[0],
                    None => document,
                };
                let section = cited::number(&line[at + sign.len()..]);
                cited += 1;
                if !section.is_some_and(|section| target.has_section(section)) {
                    wrong.push(format!(
                        "{}.md:{}: §{} of {}",
                        document.name,
                        number + 1,
                        section.unwrap_or("without a number"),
                        target.name
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cited > 100, "only {cited} citations were found");
}

#[test]
fn a_wrong_citation_is_seen() {
    let documents = [
        Document::new(
            "control-path",
            "# Title\n## 3. Start\n### 3.1 Steps\n| # | Step | R |\n|---|---|---|\n| 1 | first | x |\n\
             | 2 | `second` | x |\n### 3.2 More\n1. one\n2. two\n## 4. End\n",
        ),
        Document::new(
            "field-evidence",
            "## 3. Firmware\n| # | fact |\n| --- | --- |\n| 3.4 | the lock |\n",
        ),
    ];
    let judge = |text: &str| complaints(&documents, "x.rs", text);
    let fine = "\
//! Starts (control-path 3.1, steps 1 and 2; 3.2 step 2), see (control-path
//! 3.1, row `second`, column R) and (control-path 3 to 4, field-evidence 3.4), `control-path`
//! [table](reference/control-path.md), control-path 4, 20 ms later.
";
    assert_eq!(judge(fine), (5, Vec::new()));
    let wrong = "\
/// (control-path)
/// (control-path 3.3), (control-path
/// 3.1, 5)
/// (control-path 3.1 step 3), (control-path 3.1, steps 1 to 9), (control-path 3.1, row third)
/// (control-path 3.1, column W), (field-evidence 3.5), (control-path 3.2, row 7)
";
    let (found, complaints) = judge(wrong);
    assert_eq!(found, 9);
    assert_eq!(
        complaints,
        [
            "x.rs:1: control-path: cited without a section",
            "x.rs:2: control-path: no section 3.3",
            "x.rs:2: control-path: no section 5",
            "x.rs:4: control-path: 3.1 has no step or item 3",
            "x.rs:4: control-path: 3.1 has no step or item 9",
            "x.rs:4: control-path: 3.1 has no row third",
            "x.rs:5: control-path: 3.1 has no column W",
            "x.rs:5: field-evidence: no section 3.5",
            "x.rs:5: control-path: 3.2 has no row 7",
        ]
    );
}
