//! Files that a command writes while it runs. Waiting for the reader of a FIFO has a limit: there
//! may be none, or it may not read.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time for a reader to open a FIFO: it may be started at the same time.
const READER_COMES: Duration = Duration::from_secs(1);
/// Time that a reader may read nothing.
const READER_TAKES: Duration = Duration::from_secs(5);
/// How often both are checked again.
const AGAIN: Duration = Duration::from_millis(5);

/// A file, FIFO or device to write to.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    /// The reader's time is over: do not wait for it again.
    is_given_up: bool,
}

impl OutputFile {
    /// Opens `path`, or creates a file there. An existing file is emptied.
    ///
    /// # Errors
    /// An error of the system, or a FIFO that nobody reads within a second.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut how = File::options();
        how.write(true).create(true).truncate(true);
        how.custom_flags(libc::O_NONBLOCK);
        let end = Instant::now() + READER_COMES;
        loop {
            let error = match how.open(path) {
                Ok(file) => return Ok(file.into()),
                Err(error) => error,
            };
            // The error of a FIFO without a reader, and of a socket.
            let is_unread = error.raw_os_error() == Some(libc::ENXIO);
            if !(is_unread && fs::metadata(path)?.file_type().is_fifo()) {
                return Err(error);
            }
            if Instant::now() >= end {
                return Err(io::Error::other(
                    "nobody reads this FIFO: start its reader first",
                ));
            }
            sleep(AGAIN);
        }
    }
}

impl From<File> for OutputFile {
    fn from(file: File) -> Self {
        Self {
            file,
            is_given_up: false,
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut end = None;
        loop {
            match self.file.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return written,
            }
            let end = *end.get_or_insert_with(|| Instant::now() + READER_TAKES);
            if self.is_given_up || Instant::now() >= end {
                self.is_given_up = true;
                return Err(io::Error::other(format!(
                    "its reader took nothing for {READER_TAKES:?}"
                )));
            }
            sleep(AGAIN);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
