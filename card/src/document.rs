//! A report, as read.

use crate::lines::{Line, Lines};
use crate::record::{Record, VERSION};

/// A report, as read.
pub type Document = Lines<Record>;

impl Line for Record {
    const FILE: &'static str = "report of `e810 report`";
    const KINDS: &'static [&'static str] = &[
        "report",
        "level",
        "next",
        "skipped",
        "absent",
        "fact",
        "config",
        "log",
        "state",
        "register",
        "adminq",
        "cqp",
        "module",
        "connections",
        "end",
    ];
    const VERSION: u32 = VERSION;

    fn version(&self) -> Option<u32> {
        match self {
            Self::Report(header) => Some(header.version),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::ReadError;
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
        assert_eq!(
            error.to_string(),
            "the report of `e810 report` has format 2, and this program reads up to 1: use a newer e810"
        );
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
            assert!(
                matches!(error, ReadError::Foreign { .. }),
                "{text}: {error}"
            );
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
        for kind in Record::KINDS {
            assert!(error.to_string().contains(&format!("`{kind}`")), "{kind}");
        }
        assert_eq!(
            error.to_string().matches('`').count(),
            2 + 2 * Record::KINDS.len()
        );
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
