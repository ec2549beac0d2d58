//! Writing a report: each access is named on the disk before it is made.
//!
//! The file holds the results so far and, behind them, one line `next` with the name of
//! the access that is being made. The result takes the place of that line. So a finished
//! report has no such line, and one that was cut off by a machine that died has one, the
//! last.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Cursor, Seek, SeekFrom, Write};

use thiserror::Error;

use crate::document::Document;
use crate::record::Record;

/// Where a report is written.
pub trait Medium: Write + Seek {
    /// Cuts what is behind `length` bytes.
    ///
    /// # Errors
    /// Of the file.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Returns when what was written is on the disk.
    ///
    /// # Errors
    /// Of the file.
    fn settle(&mut self) -> io::Result<()>;
}

impl Medium for File {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn settle(&mut self) -> io::Result<()> {
        match self.sync_data() {
            // A file that has no disk, such as a pipe's.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other,
        }
    }
}

impl Medium for Cursor<Vec<u8>> {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        self.get_mut().truncate(length);
        Ok(())
    }

    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why a report ends early.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The file cannot be written.
    #[error(
        "writing the report: {0}; free space and remove it, or choose another --out, then run it again"
    )]
    Write(io::Error),
    /// The function does not answer any more.
    #[error(
        "{what}: the device is gone (registers read all-ones); what was read until then is in the report"
    )]
    Gone {
        /// The access that found it out.
        what: String,
    },
}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// A report that is being written.
#[derive(Debug)]
pub struct Journal<M> {
    medium: M,
    /// Bytes of results.
    length: u64,
    /// Bytes of the file, with the line `next`.
    end: u64,
    skipped: BTreeSet<String>,
}

/// Why accesses are left out.
const DIED: &str = "an earlier run ended at this access";

impl<M: Medium> Journal<M> {
    /// Begins a report on an empty file. Accesses whose names are in `skipped` will not
    /// be made.
    ///
    /// # Errors
    /// [`JournalError::Write`].
    pub fn new(
        mut medium: M,
        skipped: BTreeSet<String>,
        header: Record,
    ) -> Result<Self, JournalError> {
        medium.cut(0)?;
        medium.seek(SeekFrom::Start(0))?;
        let mut journal = Self {
            medium,
            length: 0,
            end: 0,
            skipped,
        };
        journal.put(&header)?;
        let left_out: Vec<String> = journal.skipped.iter().cloned().collect();
        // All of them, at the start, so that they are not lost if this run ends early.
        for what in left_out {
            let why = DIED.to_owned();
            journal.put(&Record::Skipped { what, why })?;
        }
        Ok(journal)
    }

    /// The accesses that an earlier report says to leave out: the one that it ended at,
    /// and those that it left out itself.
    #[must_use]
    pub fn to_skip(earlier: &Document) -> BTreeSet<String> {
        let skipped = earlier.records.iter().filter_map(|record| match record {
            Record::Skipped { what, .. } | Record::Next { what } => Some(what.clone()),
            _ => None,
        });
        skipped.collect()
    }

    /// Writes a line.
    ///
    /// # Errors
    /// [`JournalError::Write`].
    pub fn put(&mut self, record: &Record) -> Result<(), JournalError> {
        self.length = self.write(record)?;
        if self.end > self.length {
            self.medium.cut(self.length)?;
        }
        self.end = self.length;
        Ok(())
    }

    /// Makes an access, unless it is one to be left out: `None`. Its name is on the disk
    /// before it is made.
    ///
    /// # Errors
    /// [`JournalError::Write`].
    pub fn access<T>(
        &mut self,
        what: &str,
        access: impl FnOnce() -> T,
    ) -> Result<Option<T>, JournalError> {
        if self.skipped.contains(what) {
            return Ok(None);
        }
        let what = what.to_owned();
        let before = self.end;
        self.end = self.write(&Record::Next { what })?;
        if before > self.end {
            self.medium.cut(self.end)?;
        }
        self.medium.settle()?;
        Ok(Some(access()))
    }

    /// Ends the report.
    ///
    /// # Errors
    /// [`JournalError::Write`].
    pub fn finish(mut self, why: Option<String>) -> Result<M, JournalError> {
        let complete = why.is_none();
        self.put(&Record::End { complete, why })?;
        self.medium.settle()?;
        Ok(self.medium)
    }

    /// Writes a line behind the results; gives the offset behind it.
    fn write(&mut self, record: &Record) -> io::Result<u64> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        self.medium.seek(SeekFrom::Start(self.length))?;
        self.medium.write_all(&line)?;
        Ok(self.length + line.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Header;

    fn header() -> Record {
        Record::Report(Header {
            version: 1,
            program: "test".to_owned(),
            device: "sim".to_owned(),
            transport: "simulated".to_owned(),
            level: 0,
            identities: false,
        })
    }

    fn fact(name: &str) -> Record {
        Record::Fact {
            name: name.to_owned(),
            text: "x".to_owned(),
        }
    }

    fn read(medium: &Cursor<Vec<u8>>) -> Vec<Record> {
        Document::parse(medium.get_ref()).unwrap().records
    }

    #[test]
    fn the_access_is_named_while_it_is_made() {
        let mut journal = Journal::new(Cursor::new(Vec::new()), BTreeSet::new(), header()).unwrap();
        for name in ["a rather long name of an access", "b", "c, longer than b"] {
            let made = journal.access(name, || ()).unwrap();
            assert_eq!(made, Some(()));
            let last = read(&journal.medium).pop();
            let what = name.to_owned();
            assert_eq!(last, Some(Record::Next { what }));
            // Two accesses without a result in between.
            let _ = journal.access("x", || ()).unwrap();
            journal.put(&fact(name)).unwrap();
        }
        let medium = journal.finish(None).unwrap();
        let records = read(&medium);
        assert_eq!(records.len(), 5);
        assert!(
            !records
                .iter()
                .any(|record| matches!(record, Record::Next { .. }))
        );
    }

    #[test]
    fn the_next_run_leaves_it_out() {
        let mut journal = Journal::new(Cursor::new(Vec::new()), BTreeSet::new(), header()).unwrap();
        journal.put(&fact("one")).unwrap();
        // The machine dies here.
        let _ = journal.access("deadly", || ()).unwrap();
        let earlier = Document::parse(journal.medium.get_ref()).unwrap();
        let skip = Journal::<File>::to_skip(&earlier);
        let mut journal = Journal::new(Cursor::new(Vec::new()), skip, header()).unwrap();
        let made = journal.access("deadly", || panic!("it was made"));
        assert!(matches!(made, Ok(None)));
        assert_eq!(journal.access("harmless", || 3).unwrap(), Some(3));
        // And so does the one after that, which ends at another.
        let again = Document::parse(journal.medium.get_ref()).unwrap();
        let skip = Journal::<File>::to_skip(&again);
        assert_eq!(skip.len(), 2);
    }

    #[test]
    fn a_disk_that_is_full_ends_the_report() {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let error = Journal::new(file, BTreeSet::new(), header());
        assert!(matches!(error, Err(JournalError::Write(_))));
    }
}
