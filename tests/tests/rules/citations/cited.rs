//! Where a text cites a document, and what of it.

use crate::citations::document::Document;

/// What a citation names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Section(String),
    /// Section, and the number of a row of its tables or of an item of its lists.
    Step(String, String),
    /// Section, and a part of one of the first three cells of a row.
    Row(String, String),
    /// Section, and a whole cell of a table's head.
    Column(String, String),
}

pub(crate) struct Citation {
    /// Index of the document.
    pub(crate) document: usize,
    /// Line of the text, from 1.
    pub(crate) line: usize,
    pub(crate) places: Result<Vec<Place>, String>,
}

/// A text whose lines are one, without what makes them comments.
pub(crate) struct Joined {
    text: String,
    /// Where in `text` each line begins.
    lines: Vec<usize>,
}

pub(crate) fn joined(text: &str) -> Joined {
    let mut joined = String::with_capacity(text.len());
    let mut lines = Vec::new();
    for line in text.lines() {
        lines.push(joined.len());
        let line = line.trim_start();
        let line = ["//!", "///", "//", "#"]
            .iter()
            .find_map(|mark| line.strip_prefix(mark))
            .unwrap_or(line);
        joined.push_str(line.trim());
        joined.push(' ');
    }
    Joined {
        text: joined,
        lines,
    }
}

pub(crate) fn citations(documents: &[Document], joined: &Joined) -> Vec<Citation> {
    let text = &joined.text;
    let mut citations = Vec::new();
    for (document, name) in documents.iter().map(|document| document.name).enumerate() {
        for (at, _) in text.match_indices(name) {
            let (before, after) = (&text[..at], &text[at + name.len()..]);
            let in_a_word = |c: char| c.is_alphanumeric() || "/-_.".contains(c);
            let is_file = before.ends_with(in_a_word) || after.starts_with(in_a_word);
            let is_name = before.ends_with('`') && after.starts_with('`');
            // The end of a sentence is not part of a word.
            let ends = after.starts_with(". ");
            if (is_file && !ends) || is_name {
                continue;
            }
            let citation = Citation {
                document,
                line: joined.lines.partition_point(|start| *start <= at),
                places: places(after),
            };
            citations.push((at, citation));
        }
    }
    citations.sort_by_key(|(at, _)| *at);
    citations
        .into_iter()
        .map(|(_, citation)| citation)
        .collect()
}

/// The number with which `text` begins: digits, and parts divided by points.
pub(crate) fn number(text: &str) -> Option<&str> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number = text[..end].trim_end_matches('.');
    (!number.is_empty()).then_some(number)
}

/// Sections and rows named at the beginning of `text`.
fn places(text: &str) -> Result<Vec<Place>, String> {
    let Some(first) = text.strip_prefix(' ').and_then(number) else {
        return Err("cited without a section".to_owned());
    };
    let mut section = first.to_owned();
    let mut places = vec![Place::Section(section.clone())];
    let mut rest = &text[1 + first.len()..];
    // Whether numbers that follow are steps of `section`.
    let mut steps = false;
    while let Some((word, after)) = next(rest) {
        match word {
            "step" | "steps" | "item" | "items" => steps = true,
            "row" | "rows" => {
                let (name, after) = quoted(after)?;
                places.push(Place::Row(section.clone(), name.to_owned()));
                rest = after;
                continue;
            }
            "column" | "columns" => {
                let (name, after) = quoted(after)?;
                places.push(Place::Column(section.clone(), name.to_owned()));
                rest = after;
                continue;
            }
            number if steps && !number.contains('.') => {
                places.push(Place::Step(section.clone(), number.to_owned()));
            }
            number => {
                steps = false;
                section = number.to_owned();
                places.push(Place::Section(section.clone()));
            }
        }
        rest = after;
    }
    Ok(places)
}

/// The next word that belongs to a citation: a number or the word for a row.
fn next(text: &str) -> Option<(&str, &str)> {
    let mut text = text.trim_start_matches([',', ';', ' ']);
    for joining in ["and ", "to "] {
        text = text.strip_prefix(joining).unwrap_or(text);
    }
    for word in [
        "steps", "step", "items", "item", "rows", "row", "columns", "column",
    ] {
        if let Some(after) = text
            .strip_prefix(word)
            .filter(|after| after.starts_with(' '))
        {
            return Some((word, after));
        }
    }
    let number = number(text)?;
    let after = &text[number.len()..];
    let follows = after.trim_start();
    // "20 ms" is a time.
    let amount = !number.contains('.')
        && after.starts_with(' ')
        && follows.starts_with(|c: char| c.is_alphabetic())
        && !["and ", "to ", "step", "item", "row", "column"]
            .iter()
            .any(|word| follows.starts_with(word));
    let in_a_word = after.starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_');
    (!amount && !in_a_word).then_some((number, after))
}

/// The name behind "row": in quotes, in backticks, or one word.
fn quoted(text: &str) -> Result<(&str, &str), String> {
    let text = text.trim_start();
    for quote in ['"', '`'] {
        if let Some(name) = text.strip_prefix(quote) {
            return name
                .split_once(quote)
                .ok_or_else(|| "the name of a row does not end".to_owned());
        }
    }
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    Ok(text.split_at(end))
}
