//! Looking at functions of another process.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::seen::Seen;
use super::service::LIMIT;

/// Bytes of an answer at most: 64 functions with all that can be told of them.
const ANSWER: u64 = 4 << 20;

/// A connection with a process that answers.
#[derive(Debug)]
pub struct Client {
    answers: BufReader<UnixStream>,
    questions: UnixStream,
}

impl Client {
    /// Connects with the process that listens at `path`.
    ///
    /// # Errors
    /// Nobody does.
    pub fn connect(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path).with_context(|| {
            format!(
                "{}: start the command to look at with --monitor {0}",
                path.display()
            )
        })?;
        // Functions have their time, and then some for the answer itself.
        stream.set_read_timeout(Some(LIMIT + Duration::from_secs(3)))?;
        Ok(Self {
            answers: BufReader::new(stream.try_clone()?),
            questions: stream,
        })
    }

    /// One look; `None` when the process has ended.
    ///
    /// # Errors
    /// No answer in time, or one that is none.
    pub fn look(&mut self) -> Result<Option<Seen>> {
        if let Err(error) = self.questions.write_all(b"look\n") {
            log::debug!("the process is gone: {error}");
            return Ok(None);
        }
        let mut line = Vec::new();
        let read = (&mut self.answers)
            .take(ANSWER)
            .read_until(b'\n', &mut line);
        if let Err(error) = read {
            if error.kind() == std::io::ErrorKind::ConnectionReset {
                return Ok(None);
            }
            bail!("the process does not answer: {error}");
        }
        if line.is_empty() {
            return Ok(None);
        }
        ensure!(
            line.ends_with(b"\n"),
            "an answer of more than {ANSWER} bytes, or half a one"
        );
        let seen = serde_json::from_slice(&line);
        Ok(Some(
            seen.context("an answer of another version of this program")?,
        ))
    }
}
