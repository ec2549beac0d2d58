//! What experiments have found of a card: the file of `e810 selftest`, a JSON object a line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The format that this program writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// A line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Line {
    /// The first line.
    Selftest {
        /// Version of the format.
        version: u32,
        /// The program that wrote it, with its version.
        program: String,
        /// The function, as the program's user named it.
        device: String,
    },
    /// An experiment begins.
    Begins {
        /// Its name.
        name: String,
    },
    /// It has ended.
    Outcome(Outcome),
    /// The last line, unless the program or the machine died.
    Ended {
        /// Why it ended before all experiments were performed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
}

impl Line {
    /// The first line.
    #[must_use]
    pub fn begin(program: &str, device: &str) -> Self {
        Self::Selftest {
            version: VERSION,
            program: program.to_owned(),
            device: device.to_owned(),
        }
    }
}

/// What became of an assumption.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The card does what is assumed.
    Holds,
    /// It does something else.
    Differs,
    /// The experiment did not get so far.
    NotTried,
}

/// What one experiment has found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The experiment's name.
    pub name: String,
    /// What became of its assumption.
    pub verdict: Verdict,
    /// The value that was seen, if it is one of the experiment's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What else was seen, or why the experiment ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Why a file cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotFindings {
    /// The first line is missing or another one.
    #[error("the file is none of `e810 selftest`: its first line does not say so")]
    Foreign,
    /// A newer program wrote it.
    #[error("the file has version {0}, and this program reads up to {VERSION}; take a newer one")]
    Version(u32),
}

/// What a file of `e810 selftest` says of its card.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings(BTreeMap<String, String>);

impl Findings {
    /// Reads a file. Lines of other kinds, and a last one that is cut, are passed over; of two
    /// outcomes of one experiment the last counts.
    ///
    /// # Errors
    /// [`NotFindings`].
    pub fn parse(bytes: &[u8]) -> Result<Self, NotFindings> {
        let mut lines = bytes
            .split(|byte| *byte == b'\n')
            .map(serde_json::from_slice::<Line>);
        match lines.next() {
            Some(Ok(Line::Selftest { version, .. })) if version > VERSION => {
                return Err(NotFindings::Version(version));
            }
            Some(Ok(Line::Selftest { .. })) => {}
            _ => return Err(NotFindings::Foreign),
        }
        let outcomes = lines.filter_map(|line| match line {
            Ok(Line::Outcome(outcome)) => Some((outcome.name, outcome.value)),
            _ => None,
        });
        let last: BTreeMap<String, Option<String>> = outcomes.collect();
        let found = last
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        Ok(Self(found.collect()))
    }

    /// What the card does, by the name of an experiment; `None` if that was not found out, or was none of
    /// the known behaviours.
    #[must_use]
    pub fn value(&self, experiment: &str) -> Option<&str> {
        self.0.get(experiment).map(String::as_str)
    }

    /// Experiments and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter();
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIRST: &str = r#"{"kind":"selftest","version":1,"program":"e810","device":"sim"}"#;

    #[test]
    fn a_file_says_what_was_found() {
        let text = format!(
            "{FIRST}\n{}\n{}\n{}\n{}\n{}",
            r#"{"kind":"begins","name":"flush"}"#,
            r#"{"kind":"outcome","name":"flush","verdict":"differs","value":"PerWqe"}"#,
            r#"{"kind":"news","text":"of a later version"}"#,
            r#"{"kind":"outcome","name":"octets","verdict":"differs","value":"Frames"}
{"kind":"outcome","name":"octets","verdict":"not-tried","note":"no link"}"#,
            r#"{"kind":"outcome","name":"op_err","ver"#,
        );
        let findings = Findings::parse(text.as_bytes()).unwrap();
        let all: Vec<_> = findings.iter().collect();
        assert_eq!(all, [("flush", "PerWqe")]);
    }

    #[test]
    fn other_files_are_told() {
        for foreign in ["", "{}", r#"{"kind":"outcome"}"#, "\u{0}"] {
            assert_eq!(
                Findings::parse(foreign.as_bytes()),
                Err(NotFindings::Foreign)
            );
        }
        let newer = FIRST.replace("\"version\":1", "\"version\":2");
        assert_eq!(
            Findings::parse(newer.as_bytes()),
            Err(NotFindings::Version(2))
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut all = FIRST.as_bytes().to_vec();
            all.push(b'\n');
            all.extend(bytes);
            prop_assert!(Findings::parse(&all).is_ok());
        }
    }
}
