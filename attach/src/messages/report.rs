//! What somebody who is no program asks about the programs, and what they are told.

use serde::{Deserialize, Serialize};

use super::Held;

/// Programs of one answer: a message has room for more.
pub const PAGE: usize = 12;

/// Some of the programs: the answer to [`Hello::Programs`](super::Hello::Programs).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Page {
    /// What all programs have, of all users.
    pub total: Held,
    /// How many programs there are.
    pub programs: u64,
    /// No new programs are attached: the server ends.
    pub is_closing: bool,
    /// Those that the asker may see, in the order in which they came, at most [`PAGE`].
    pub rows: Vec<Row>,
    /// Whether more of them follow after the last of these.
    pub has_more: bool,
}

/// A program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The server's number of it; none is given twice.
    pub id: u64,
    pub pid: u32,
    /// That of its process, without characters that control a terminal; empty if it is not known.
    pub name: String,
    pub uid: u32,
    pub held: Held,
    pub counts: Counts,
    /// The command that has been under way for the longest time, and for how many milliseconds.
    pub under_way: Option<(String, u64)>,
    /// Messages that it has not read, and that wait in the server.
    pub unread: u64,
}

/// What a program has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Commands that were carried out, or refused.
    pub commands: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Doorbells that were rung for it.
    pub doorbells: u64,
    /// The most commands of others that one of its commands has waited for.
    pub passed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{MOST, Told, decode, encode};

    #[test]
    fn the_longest_page_is_a_message() {
        let held = Held {
            pds: usize::MAX,
            mrs: usize::MAX,
            cqs: usize::MAX,
            qps: usize::MAX,
            ahs: usize::MAX,
            groups: usize::MAX,
            files: usize::MAX,
            bytes: u64::MAX,
            questions: usize::MAX,
            connections: usize::MAX,
            listeners: usize::MAX,
        };
        let row = Row {
            id: u64::MAX,
            pid: u32::MAX,
            name: "\u{fffd}".repeat(16),
            uid: u32::MAX,
            held,
            counts: Counts {
                commands: u64::MAX,
                refused: u64::MAX,
                doorbells: u64::MAX,
                passed: u64::MAX,
            },
            under_way: Some(("LongestNameOfCommand".to_owned(), u64::MAX)),
            unread: u64::MAX,
        };
        let page = Page {
            total: held,
            programs: u64::MAX,
            is_closing: true,
            rows: vec![row; PAGE],
            has_more: true,
        };
        let told = Told::Programs(Box::new(page.clone()));
        let bytes = encode(&told);
        assert!(bytes.len() <= MOST, "{}", bytes.len());
        let Ok(Told::Programs(back)) = decode(&bytes) else {
            panic!("{bytes:?}");
        };
        assert_eq!(*back, page);
    }
}
