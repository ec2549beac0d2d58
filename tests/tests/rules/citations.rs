//! Every citation of the reference tables names a section that exists.
//!
//! Code and documents cite docs/reference as `control-path 4.3`, with more sections of the same
//! document behind it; a citation without a section is refused. The name alone, in backticks, is
//! the name of a document. The tables cite one another as `§4.3` or `cp§4.3`. Messages name rows of
//! docs/errata.md.

use std::collections::{BTreeMap, BTreeSet};

use e810_tests::sources::{files, root, sources};

use crate::{name, read};

/// The sections of each document, by its name.
type Documents = BTreeMap<String, BTreeSet<String>>;

/// Numbers of headings, and of rows whose first cell is 3.1, 3.2 and so on.
fn sections(text: &str) -> BTreeSet<String> {
    let numbered = text.lines().filter_map(|line| {
        let start = line.trim_start_matches(['#', '|', ' ', '*', '`']);
        let is_cited = line.starts_with("##") || line.starts_with('|');
        number(start).filter(|_| is_cited)
    });
    numbered.map(str::to_owned).collect()
}

fn documents() -> Documents {
    let all = files(&root().join("docs/reference"), &["md"]).into_iter();
    all.filter_map(|path| {
        let name = path.file_stem()?.to_str()?.to_owned();
        (name != "README").then(|| (name, sections(&read(path))))
    })
    .collect()
}

/// The number with which `text` begins: digits, and parts divided by points.
fn number(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let number = text[..end.unwrap_or(text.len())].trim_end_matches('.');
    (!number.is_empty()).then_some(number)
}

/// A text whose lines are one, without what makes them comments.
fn joined(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.trim_start();
        let marks = ["//!", "///", "//", "#"];
        let bare = marks.iter().find_map(|mark| line.strip_prefix(mark));
        bare.unwrap_or(line).trim()
    });
    lines.collect::<Vec<_>>().join(" ")
}

/// What is wrong with the citations of `text`, and how many there are.
fn complaints(documents: &Documents, file: &str, text: &str) -> (usize, Vec<String>) {
    let text = joined(text);
    let (mut cited, mut wrong) = (0, Vec::new());
    for (name, sections) in documents {
        for (at, _) in text.match_indices(name.as_str()) {
            let (before, after) = (&text[..at], &text[at + name.len()..]);
            let in_a_word = |c: char| c.is_alphanumeric() || "/-_.".contains(c);
            let is_file = before.ends_with(in_a_word) || after.starts_with(in_a_word);
            let is_name = before.ends_with('`') && after.starts_with('`');
            // The end of a sentence is not part of a word.
            if (is_file && !after.starts_with(". ")) || is_name {
                continue;
            }
            cited += 1;
            let Some(first) = after.strip_prefix(' ').and_then(number) else {
                wrong.push(format!("{file}: {name} is cited without a section"));
                continue;
            };
            let mut all = vec![first];
            let mut rest = &after[1 + first.len()..];
            // Those behind it have parts: a bare number may be anything.
            while let Some(behind) = rest.strip_prefix([',', ';'])
                && let Some(next) = number(behind.trim_start()).filter(|next| next.contains('.'))
            {
                all.push(next);
                rest = &behind.trim_start()[next.len()..];
            }
            let missing = all
                .into_iter()
                .filter(|section| !sections.contains(*section));
            wrong.extend(missing.map(|section| format!("{file}: {name} has no section {section}")));
        }
    }
    (cited, wrong)
}

#[test]
fn every_citation_names_a_section_that_exists() {
    let documents = documents();
    let (mut cited, mut wrong) = (0, Vec::new());
    for path in files(&root(), &["rs", "md", "s", "toml"]) {
        // The examples below are wrong on purpose.
        let file = name(&path);
        if file.starts_with("docs/reference") || path.ends_with("rules/citations.rs") {
            continue;
        }
        let (found, complaints) = complaints(&documents, &file, &read(path));
        cited += found;
        wrong.extend(complaints);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cited > 900, "only {cited} citations were found");
}

#[test]
fn the_tables_cite_sections_that_exist() {
    let documents = documents();
    let (mut cited, mut wrong) = (0, Vec::new());
    for (name, own) in &documents {
        let text = read(format!("docs/reference/{name}.md"));
        for (at, sign) in text.match_indices('§') {
            let before = text[..at].trim_end();
            let named = documents
                .iter()
                .find(|(name, _)| before.ends_with(&format!("{name}.md")));
            let target = match named {
                Some((_, other)) => other,
                None if before.ends_with("cp") => &documents["control-path"],
                None => own,
            };
            cited += 1;
            let section = number(&text[at + sign.len()..]);
            if !section.is_some_and(|section| target.contains(section)) {
                wrong.push(format!("{name}.md: §{section:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cited > 100, "only {cited} citations were found");
}

/// The rows of docs/errata.md that a source names, as `erratum E02` or `errata E11, E12`.
fn errata<'a>(text: &'a str) -> Vec<&'a str> {
    let is_id = |id: &&str| id.starts_with('E') && number(&id[1..]) == id.get(1..);
    let words = ["erratum ", "errata "].into_iter();
    let lists = words.flat_map(|word| text.split(word).skip(1));
    let starts = |list: &'a str| list.split(", ").map_while(|part| part.get(..3));
    lists
        .flat_map(|list| starts(list).take_while(is_id))
        .collect()
}

#[test]
fn messages_name_errata_that_exist() {
    let page = read("docs/errata.md");
    let mut seen = 0;
    for path in sources(&root()) {
        let text = read(&path);
        for id in errata(&text) {
            seen += 1;
            let is_there = page.contains(&format!("\n| {id} |"));
            assert!(is_there, "{}: {id}", name(&path));
        }
    }
    assert!(seen >= 8, "only {seen} messages");
    let text = "a (erratum E02), b (errata E11, E13) errata of; errata E1 erratum E1x";
    assert_eq!(errata(text), ["E02", "E11", "E13"]);
}

#[test]
fn a_wrong_citation_is_seen() {
    let control = sections("# Title\n## 3. Start\n### 3.1 Steps\n| 9 | x |\n## 4. End\n");
    let field = sections("## 3. Firmware\n| # | fact |\n| --- | --- |\n| 3.4 | the lock |\n");
    let named = |name: &str, sections| (name.to_owned(), sections);
    let documents = Documents::from([
        named("control-path", control),
        named("field-evidence", field),
    ]);
    let fine = "\
//! Starts (control-path 3.1, step 1), see (control-path
//! 3.1; field-evidence 3.4), `control-path` [table](reference/control-path.md), control-path 4, 20 ms
";
    assert_eq!(complaints(&documents, "x.rs", fine), (4, Vec::new()));
    let wrong = "/// (control-path) (control-path\n/// 3.3), (control-path 3.1, 5.2)\n";
    let (found, wrong) = complaints(&documents, "x.rs", wrong);
    assert_eq!(found, 3);
    assert_eq!(
        wrong,
        [
            "x.rs: control-path is cited without a section",
            "x.rs: control-path has no section 3.3",
            "x.rs: control-path has no section 5.2",
        ]
    );
}
