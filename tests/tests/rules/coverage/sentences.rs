//! The sentences: each of each text is cited, by a row or as one that says nothing
//! about us.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::coverage::{DOCUMENT, text};

/// The texts, and how many sentences each has.
const TEXTS: [(&str, u32); 3] = [("000", 61), ("001", 959), ("002", 371)];

/// Title of the section of sentences that no row is about, behind its number.
const NOTHING: &str = ". Sentences that say nothing about us";

/// A text and some of its sentences.
type Cited<'a> = (&'a str, RangeInclusive<u32>);

/// Where sentences are cited: the rows, each by its number, and the lines of the
/// last section, each by what it says of them.
fn places(text: &str) -> Vec<(String, &str)> {
    let mut last = false;
    let mut places = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            last = title.ends_with(NOTHING);
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        match cells[..] {
            ["", number, cited, ..] if number.starts_with(|c: char| c.is_ascii_digit()) => {
                places.push((number.to_owned(), cited));
            }
            _ => {}
        }
        if let Some((what, cited)) = line
            .strip_prefix("- ")
            .and_then(|line| line.split_once(": "))
            && last
        {
            places.push((what.to_owned(), cited));
        }
    }
    places
}

/// `001:37` or `001:37-39`, and no other way to write it.
fn cited(cell: &str) -> Option<Cited<'_>> {
    let (text, numbers) = cell.split_once(':')?;
    let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
    let number = |digits: &str| -> Option<u32> {
        let number: u32 = digits.parse().ok()?;
        (number.to_string() == digits).then_some(number)
    };
    let (first, last) = (number(first)?, number(last)?);
    let written = if first == last {
        format!("{text}:{first}")
    } else {
        format!("{text}:{first}-{last}")
    };
    (written == cell && first <= last).then_some((text, first..=last))
}

/// What is wrong with the citations of a page.
fn wrong(page: &str, texts: &[(&str, u32)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); texts.len()];
    for (place, cell) in places(page) {
        for name in cell.split(", ") {
            let Some((text, numbers)) = cited(name) else {
                wrong.push(format!("{place}: `{name}` is no sentence"));
                continue;
            };
            let Some(at) = texts.iter().position(|(known, _)| *known == text) else {
                wrong.push(format!("{place}: there is no text {text}"));
                continue;
            };
            if !(1..=texts[at].1).contains(numbers.start()) || *numbers.end() > texts[at].1 {
                wrong.push(format!("{place}: {text} has {} sentences", texts[at].1));
                continue;
            }
            seen[at].extend(numbers);
        }
    }
    for ((text, count), seen) in texts.iter().zip(&seen) {
        let missing = (1..=*count).filter(|number| !seen.contains(number));
        wrong.extend(missing.map(|number| format!("nothing cites {text}:{number}")));
    }
    wrong
}

#[test]
fn every_sentence_is_cited_and_none_that_is_not_there() {
    let wrong = wrong(&text(), &TEXTS);
    assert!(wrong.is_empty(), "{DOCUMENT}:\n{}", wrong.join("\n"));
}

#[test]
fn a_citation_that_is_wrong_is_seen() {
    let texts = [("000", 3), ("001", 4)];
    let page = |cell: &str, list: &str| {
        format!(
            "- prose: 001:9\n\n## 1. One\n\n| No. | Sentences |\n| --- | --- |\n\
             | 1.1 | 000:1-3, 001:1 | x |\n| 1.2 | {cell} | x |\n\n\
             ## 2{NOTHING}\n\n- headings: {list}\n"
        )
    };
    assert_eq!(wrong(&page("001:2-3, 000:2", "001:4"), &texts), [""; 0]);
    for (cell, list, expected) in [
        ("001:2", "001:4", "nothing cites 001:3"),
        ("001:2-3", "001:2", "nothing cites 001:4"),
        ("001:2-5", "001:2-4", "1.2: 001 has 4 sentences"),
        ("001:0", "001:2-4", "1.2: 001 has 4 sentences"),
        ("002:1", "001:2-4", "1.2: there is no text 002"),
        ("001:3-2", "001:2-4", "1.2: `001:3-2` is no sentence"),
        ("001:2-2", "001:2-4", "1.2: `001:2-2` is no sentence"),
        ("001:02", "001:2-4", "1.2: `001:02` is no sentence"),
        ("1.1", "001:2-4", "1.2: `1.1` is no sentence"),
        (
            "001:2",
            "001:3-4 and more",
            "headings: `001:3-4 and more` is no sentence",
        ),
    ] {
        let found = wrong(&page(cell, list), &texts);
        assert!(
            found.contains(&expected.to_owned()),
            "{cell} {list}: {found:?}"
        );
    }
}
