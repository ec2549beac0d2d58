//! Snapshots of functions of another process, over its socket.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use e810_backends::host::socket;
use e810_backends::printable::printable;
use serde_json::Value;

use super::service::{CLIENTS, LIMIT, REFUSAL};
use super::snapshot::Snapshot;

/// Maximum bytes of an answer: many functions with all their fields, of which the most connections
/// and listeners take 150 KiB.
const ANSWER: usize = 4 << 20;

/// Maximum characters of the other process' texts that are shown.
const SHOWN: usize = 500;

/// Time for an answer, from the request to its last byte: the time that functions have, plus some
/// for the answer itself.
const PATIENCE: Duration = LIMIT.saturating_add(Duration::from_secs(3));

/// A connection to a process that answers.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    /// The part of the next answer that has arrived.
    kept: Vec<u8>,
    patience: Duration,
}

impl Client {
    /// Connects to the process that listens at `path`.
    ///
    /// # Errors
    /// No process listens there.
    pub fn connect(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path).map_err(|error| {
            let shown = path.display();
            match socket::why_not(path) {
                Some(why) => {
                    anyhow!("{shown}: {why}; name the socket of a command's --monitor PATH")
                }
                None => Error::new(error).context(format!(
                    "{shown}: start the command to monitor with --monitor {shown}"
                )),
            }
        })?;
        Ok(Self::over(stream, PATIENCE))
    }

    /// Takes a connection; each answer may take `patience`.
    pub(super) const fn over(stream: UnixStream, patience: Duration) -> Self {
        Self {
            stream,
            kept: Vec::new(),
            patience,
        }
    }

    /// One snapshot; `None` when the process has ended.
    ///
    /// # Errors
    /// No answer in time, or a wrong answer.
    pub fn snapshot(&mut self) -> Result<Option<Snapshot>> {
        // A process that does not read would block the write.
        self.stream.set_write_timeout(Some(self.patience))?;
        // One that refuses has said so before it closed.
        if let Err(error) = self.stream.write_all(b"look\n") {
            log::debug!("the process is gone: {error}");
        }
        let Some(line) = self.line()? else {
            return Ok(None);
        };
        ensure!(
            line != REFUSAL,
            "{CLIENTS} others look at the process already; end one of them"
        );
        let snapshot = serde_json::from_slice(&line).map(made_printable);
        let snapshot = snapshot.and_then(serde_json::from_value);
        Ok(Some(
            snapshot.context("an answer of another version of this program")?,
        ))
    }

    /// The next line, even if it arrives in pieces; `None` when the process has ended.
    fn line(&mut self) -> Result<Option<Vec<u8>>> {
        let end = Instant::now() + self.patience;
        let mut chunk = [0; 4096];
        loop {
            if let Some(at) = self.kept.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.kept.drain(..=at).collect()));
            }
            ensure!(
                self.kept.len() <= ANSWER,
                "an answer of more than {ANSWER} bytes: is that an e810?"
            );
            let left = end.saturating_duration_since(Instant::now());
            ensure!(
                !left.is_zero(),
                "no answer within {:?}: the process is stopped or busy; check what it does, or start it again",
                self.patience
            );
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut chunk) {
                Ok(0) if self.kept.is_empty() => return Ok(None),
                Ok(0) => bail!("the process ended in the middle of its answer"),
                Ok(bytes) => self.kept.extend(chunk.iter().take(bytes)),
                Err(error) => match error.kind() {
                    ErrorKind::ConnectionReset => return Ok(None),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => bail!("reading the answer: {error}"),
                },
            }
        }
    }
}

/// Makes names and texts of the other process safe for a terminal.
fn made_printable(value: Value) -> Value {
    match value {
        Value::String(text) => printable(&text, SHOWN).into(),
        Value::Array(values) => values.into_iter().map(made_printable).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (printable(&name, SHOWN), made_printable(value)))
            .collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// What a client makes of a server that does `serve`.
    fn client(serve: impl FnOnce(UnixStream) + Send + 'static) -> String {
        let (here, there) = UnixStream::pair().unwrap();
        let server = thread::spawn(move || serve(there));
        let error = Client::over(here, Duration::from_millis(300)).snapshot();
        server.join().unwrap();
        format!("{:#}", error.unwrap_err())
    }

    #[test]
    fn an_answer_has_one_limit_however_it_comes() {
        let slow = |mut stream: UnixStream| {
            // A byte at a time, as long as anybody reads: a limit of each byte has no end.
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
        };
        let silent = |mut stream: UnixStream| {
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all);
        };
        for said in [client(slow), client(silent)] {
            assert!(said.starts_with("no answer within 300ms"), "{said}");
            assert!(!said.contains("os error"), "{said}");
        }
    }

    #[test]
    fn nonsense_is_said_to_be_that() {
        // A question that was not read would end the connection otherwise.
        let answer = |answer: &'static [u8]| {
            move |mut stream: UnixStream| {
                stream.read_exact(&mut [0; 5]).unwrap();
                stream.write_all(answer).unwrap();
            }
        };
        let said = client(answer(b"{}\n"));
        assert!(said.contains("another version"), "{said}");
        let said = client(answer(b"{"));
        assert!(said.contains("in the middle of its answer"), "{said}");
    }

    #[test]
    fn names_that_the_process_chose_control_no_terminal() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let line =
            r#"{"command":"a\u001b[2J\nb","pid":7,"at_ns":1,"functions":[],"silent":["c\u202ed"]}"#;
        there.write_all(format!("{line}\n").as_bytes()).unwrap();
        let snapshot = Client::over(here, PATIENCE).snapshot().unwrap().unwrap();
        assert_eq!(snapshot.command, "a?[2J?b");
        assert_eq!(snapshot.silent, ["c?d"]);
    }
}
