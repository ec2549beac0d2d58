//! Writing a trace.

use std::io::{self, Write};

use e810_card::lines::MOST_BYTES;

use crate::record::{Event, Record, VERSION};

/// Bytes that are left for the line that says why a trace ends.
const LAST_LINE: usize = 4096;

/// A trace that is being written.
///
/// Each line is written at once, so that the trace of a program that dies is whole up to
/// there. A file that cannot be written ends the trace, not the program.
#[derive(Debug)]
pub struct TraceFile<W: Write> {
    /// `None` once the trace has ended.
    to: Option<W>,
    written: usize,
    most: usize,
    /// Why it ended before the program.
    ended: Option<Ended>,
}

/// Why a trace ended early.
#[derive(Debug)]
pub enum Ended {
    /// It is as long as a trace that can be read again.
    Full,
    /// It could not be written.
    Failed(io::Error),
}

impl<W: Write> TraceFile<W> {
    /// Begins a trace of the devices `names`, by the program `program`.
    ///
    /// # Errors
    /// The first lines cannot be written.
    pub fn begin(to: W, program: &str, names: &[String]) -> io::Result<Self> {
        let mut file = Self {
            to: Some(to),
            written: 0,
            most: MOST_BYTES - LAST_LINE,
            ended: None,
        };
        file.put(&Record {
            ns: 0,
            device: 0,
            event: Event::Trace {
                version: VERSION,
                program: program.to_owned(),
            },
        });
        for (device, name) in (0..).zip(names) {
            file.put(&Record {
                ns: 0,
                device,
                event: Event::Device { name: name.clone() },
            });
        }
        match file.ended {
            Some(Ended::Failed(error)) => Err(error),
            _ => Ok(file),
        }
    }

    /// Whether lines are still taken.
    pub fn is_open(&self) -> bool {
        self.to.is_some()
    }

    /// Writes a line.
    pub fn put(&mut self, record: &Record) {
        // Texts and numbers only: there is always JSON for them.
        let mut line = serde_json::to_vec(record).unwrap_or_default();
        line.push(b'\n');
        if self.written + line.len() > self.most {
            self.end(Some(Ended::Full));
            return;
        }
        if let Some(to) = &mut self.to {
            self.written += line.len();
            if let Err(error) = to.write_all(&line) {
                self.end(Some(Ended::Failed(error)));
            }
        }
    }

    /// Ends the trace, with a line that says whether all is in it.
    fn end(&mut self, why: Option<Ended>) {
        let Some(mut to) = self.to.take() else {
            return;
        };
        let text = match &why {
            None => None,
            Some(Ended::Full) => Some(format!("it reached {} MiB", MOST_BYTES >> 20)),
            Some(Ended::Failed(error)) => Some(error.to_string()),
        };
        let record = Record {
            ns: 0,
            device: 0,
            event: Event::End {
                complete: text.is_none(),
                why: text,
            },
        };
        let mut line = serde_json::to_vec(&record).unwrap_or_default();
        line.push(b'\n');
        let ended = to.write_all(&line).and_then(|()| to.flush());
        self.ended = why.or(ended.err().map(Ended::Failed));
    }

    /// Ends the trace; says why it does not have everything, if so.
    pub fn finish(&mut self) -> Option<Ended> {
        self.end(None);
        self.ended.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Trace;

    /// A file with room for so many bytes.
    struct Disk(Vec<u8>, usize);

    impl Write for &mut Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.len() + bytes.len() > self.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn note(text: &str) -> Record {
        Record {
            ns: 1,
            device: 0,
            event: Event::Note {
                text: text.to_owned(),
            },
        }
    }

    #[test]
    fn a_finished_trace_says_so() {
        let mut disk = Disk(Vec::new(), 1000);
        let mut file = TraceFile::begin(&mut disk, "e810 0", &["sim".to_owned()]).unwrap();
        file.put(&note("a"));
        assert!(file.finish().is_none());
        let trace = Trace::parse(&disk.0).unwrap();
        let last = trace.records.last().unwrap();
        assert_eq!(trace.records.len(), 4);
        assert!(matches!(last.event, Event::End { complete: true, .. }));
    }

    #[test]
    fn a_full_disk_ends_the_trace() {
        let mut disk = Disk(Vec::new(), 400);
        let mut file = TraceFile::begin(&mut disk, "e810 0", &[]).unwrap();
        file.put(&note(&"x".repeat(400)));
        file.put(&note("after"));
        assert!(!file.is_open());
        assert!(matches!(file.finish(), Some(Ended::Failed(_))));
        let trace = Trace::parse(&disk.0).unwrap();
        assert_eq!(trace.records.len(), 2, "{:?}", trace.records);
        assert!(TraceFile::begin(&mut Disk(Vec::new(), 5), "e810 0", &[]).is_err());
    }

    #[test]
    fn a_trace_does_not_become_longer_than_can_be_read() {
        let mut disk = Disk(Vec::new(), 10_000);
        let mut file = TraceFile::begin(&mut disk, "e810 0", &[]).unwrap();
        file.most = 300;
        for _ in 0..100 {
            file.put(&note("x"));
        }
        assert!(matches!(file.finish(), Some(Ended::Full)));
        let trace = Trace::parse(&disk.0).unwrap();
        let last = trace.records.last().unwrap();
        assert!(matches!(
            last.event,
            Event::End {
                complete: false,
                ..
            }
        ));
    }
}
