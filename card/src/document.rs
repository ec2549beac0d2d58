//! Reading a report.

use serde_json::Value;
use thiserror::Error;

use crate::record::{Record, VERSION};

/// Largest file that is read: a report of all levels has a few MiB.
const MOST_BYTES: usize = 256 << 20;

/// A report, as read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Document {
    /// Its lines, as far as they are known.
    pub records: Vec<Record>,
    /// Lines of kinds that this program does not know.
    pub unknown: usize,
    /// The last line is not a whole one: the file was cut.
    pub is_cut: bool,
}

/// Why a file is not a report that can be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReadError {
    /// The first line is not that of a report.
    #[error("this is no report of `e810 report`: its first line is not one ({0})")]
    Foreign(String),
    /// It is of a newer format.
    #[error(
        "the report has format {found}, and this program reads up to {VERSION}: use a newer e810"
    )]
    Newer {
        /// The format of the file.
        found: u32,
    },
    /// A line that is not the last one cannot be read.
    #[error("line {line} is damaged: {why}")]
    Damaged {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The file is larger than any report.
    #[error("{bytes} bytes, and a report has at most {MOST_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
}

impl Document {
    /// Reads a report.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        if bytes.len() > MOST_BYTES {
            return Err(ReadError::TooLarge { bytes: bytes.len() });
        }
        let mut document = Self {
            records: Vec::new(),
            unknown: 0,
            is_cut: false,
        };
        let whole = bytes.ends_with(b"\n");
        let mut lines = bytes.split(|byte| *byte == b'\n').enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let is_last = lines.peek().is_none();
            let is_first = document.records.is_empty();
            match record(line) {
                Err(why) if is_first => return Err(ReadError::Foreign(why)),
                // A line that was being written when the machine died.
                Err(_) if is_last && !whole => document.is_cut = true,
                Err(why) => {
                    let line = number + 1;
                    return Err(ReadError::Damaged { line, why });
                }
                Ok(found) => {
                    if is_first {
                        first(found.as_ref())?;
                    }
                    match found {
                        Some(record) => document.records.push(record),
                        None => document.unknown += 1,
                    }
                }
            }
        }
        if document.records.is_empty() {
            return Err(ReadError::Foreign("it is empty".to_owned()));
        }
        Ok(document)
    }
}

/// Whether a report may begin with this line.
fn first(record: Option<&Record>) -> Result<(), ReadError> {
    match record {
        Some(Record::Report(header)) if header.version <= VERSION => Ok(()),
        Some(Record::Report(header)) => Err(ReadError::Newer {
            found: header.version,
        }),
        _ => Err(ReadError::Foreign("a line of another kind".to_owned())),
    }
}

/// The record of a line; `None` for a kind that is not known.
fn record(line: &[u8]) -> Result<Option<Record>, String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let kind = value.get("kind").and_then(Value::as_str);
    let kind = kind.ok_or("a line without `kind`")?;
    if !KINDS.contains(&kind) {
        return Ok(None);
    }
    let record = serde_json::from_value(value);
    record.map(Some).map_err(|error| error.to_string())
}

/// The kinds of lines of this version.
const KINDS: &[&str] = &[
    "report", "level", "next", "skipped", "absent", "fact", "config", "log", "state", "register",
    "adminq", "cqp", "module", "end",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = r#"{"kind":"report","version":1,"program":"e810 0","device":"sim","transport":"simulated","level":1,"identities":false}"#;

    #[test]
    fn a_cut_file_is_read_as_far_as_it_goes() {
        let text = format!("{HEAD}\n{{\"kind\":\"log\",\"line\":\"a\"}}\n{{\"kind\":\"lo");
        let document = Document::parse(text.as_bytes()).unwrap();
        assert_eq!((document.records.len(), document.is_cut), (2, true));
    }

    #[test]
    fn lines_of_later_versions_are_passed_over() {
        let text = format!("{HEAD}\n{{\"kind\":\"weather\",\"rain\":true}}\n");
        let document = Document::parse(text.as_bytes()).unwrap();
        assert_eq!((document.records.len(), document.unknown), (1, 1));
        let newer = HEAD.replace("\"version\":1", "\"version\":2");
        let error = Document::parse(newer.as_bytes()).unwrap_err();
        assert_eq!(error, ReadError::Newer { found: 2 });
    }

    #[test]
    fn other_files_are_refused() {
        for text in [
            "",
            "\n\n",
            "hello",
            "{}",
            "{\"kind\":\"end\",\"complete\":true}\n",
            "[1]\n",
        ] {
            let error = Document::parse(text.as_bytes()).unwrap_err();
            assert!(matches!(error, ReadError::Foreign(_)), "{text}: {error}");
        }
        let text = format!("{HEAD}\nrubbish\n{HEAD}\n");
        let error = Document::parse(text.as_bytes()).unwrap_err();
        assert!(
            matches!(error, ReadError::Damaged { line: 2, .. }),
            "{error}"
        );
    }

    #[test]
    fn every_kind_is_known() {
        // The variants are what serde lists for a kind that is none of them.
        let error = serde_json::from_str::<Record>(r#"{"kind":"?"}"#).unwrap_err();
        for kind in KINDS {
            assert!(error.to_string().contains(&format!("`{kind}`")), "{kind}");
        }
        assert_eq!(error.to_string().matches('`').count(), 2 + 2 * KINDS.len());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Document::parse(&bytes);
            let mut text = format!("{HEAD}\n").into_bytes();
            text.extend(&bytes);
            let _ = Document::parse(&text);
        }
    }
}
