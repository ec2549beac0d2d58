//! Reading files of JSON objects, one a line: reports, and traces.

use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

/// Largest file that is read: a report of all levels has a few MiB, and a trace ends there.
pub const MOST_BYTES: usize = 256 << 20;

/// A line of such a file; its JSON object has the kind as `kind`.
pub trait Line: DeserializeOwned {
    /// What a file of them is called, behind "a" or "no".
    const FILE: &'static str;
    /// The kinds of lines that this program knows.
    const KINDS: &'static [&'static str];
    /// The newest format that this program reads.
    const VERSION: u32;

    /// The format of the file that begins with this line; `None` if none can.
    fn version(&self) -> Option<u32>;
}

/// A file, as read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lines<R> {
    /// Its lines, as far as they are known.
    pub records: Vec<R>,
    /// Lines of kinds that this program does not know.
    pub unknown: usize,
    /// The last line is not a whole one: the file was cut.
    pub is_cut: bool,
}

/// Why a file cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReadError {
    /// The first line is not that of such a file.
    #[error("this is no {file}: its first line is not one ({why})")]
    Foreign {
        /// What it should be.
        file: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// It is of a newer format.
    #[error("the {file} has format {found}, and this program reads up to {most}: use a newer e810")]
    Newer {
        file: &'static str,
        /// The format of the file.
        found: u32,
        /// The newest that can be read.
        most: u32,
    },
    /// A line that is not the last one cannot be read.
    #[error("line {line} is damaged: {why}")]
    Damaged {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The file is larger than any of its kind.
    #[error("{bytes} bytes, and a {file} has at most {MOST_BYTES}")]
    TooLarge {
        /// What it should be.
        file: &'static str,
        /// Its size.
        bytes: usize,
    },
}

impl<R: Line> Lines<R> {
    /// Reads a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        if bytes.len() > MOST_BYTES {
            return Err(ReadError::TooLarge {
                file: R::FILE,
                bytes: bytes.len(),
            });
        }
        let foreign = |why| ReadError::Foreign { file: R::FILE, why };
        let mut read = Self {
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
            let is_first = read.records.is_empty();
            match record(line) {
                Err(why) if is_first => return Err(foreign(why)),
                // A line that was being written when the machine died.
                Err(_) if is_last && !whole => read.is_cut = true,
                Err(why) => {
                    let line = number + 1;
                    return Err(ReadError::Damaged { line, why });
                }
                Ok(found) => {
                    if is_first {
                        first(found.as_ref())?;
                    }
                    match found {
                        Some(record) => read.records.push(record),
                        None => read.unknown += 1,
                    }
                }
            }
        }
        if read.records.is_empty() {
            return Err(foreign("it is empty".to_owned()));
        }
        Ok(read)
    }
}

/// Whether a file may begin with this line.
fn first<R: Line>(record: Option<&R>) -> Result<(), ReadError> {
    let file = R::FILE;
    match record.and_then(R::version) {
        Some(found) if found <= R::VERSION => Ok(()),
        Some(found) => Err(ReadError::Newer {
            file,
            found,
            most: R::VERSION,
        }),
        None => Err(ReadError::Foreign {
            file,
            why: "a line of another kind".to_owned(),
        }),
    }
}

/// The record of a line; `None` for a kind that is not known.
fn record<R: Line>(line: &[u8]) -> Result<Option<R>, String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let kind = value.get("kind").and_then(Value::as_str);
    let kind = kind.ok_or("a line without `kind`")?;
    if !R::KINDS.contains(&kind) {
        return Ok(None);
    }
    let record = serde_json::from_value(value);
    record.map(Some).map_err(|error| error.to_string())
}
