//! Lines of JSON over TCP or another stream, with limits on length and time; and plain bytes, for handshakes of other
//! programs.

use std::fmt::Debug;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::HandshakeError;
use crate::stop::StopView;

/// Maximum bytes of a line; the longest one has some 250 endpoints.
pub const MAX_LINE: usize = 64 << 10;

/// Bytes of one read from the socket.
const CHUNK: usize = 4096;

/// How often a wait for the peer checks whether the run is to end.
const LOOK: Duration = Duration::from_millis(50);

/// A stream of bytes whose waits have limits.
trait Stream: Read + Write + Debug + Send {
    fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()>;
    fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()>;
    fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()>;
}

macro_rules! streams {
    ($($Stream:ty)+) => {
        $(impl Stream for $Stream {
            fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
                self.set_nonblocking(is_nonblocking)
            }

            fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
                self.set_read_timeout(limit)
            }

            fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
                self.set_write_timeout(limit)
            }
        })+
    };
}

streams!(TcpStream UnixStream);

/// A connection that carries lines.
#[derive(Debug)]
pub struct Lines {
    stream: Box<dyn Stream>,
    peer: SocketAddr,
    /// Bytes that were received but not taken yet.
    kept: Vec<u8>,
    /// Whether the run of this side was asked to end.
    stop: StopView,
    /// This side has said that it ends; later waits belong to the end.
    is_ending: bool,
}

impl Lines {
    /// Takes a connection.
    ///
    /// # Errors
    /// The socket's.
    pub fn new(stream: TcpStream, peer: SocketAddr) -> Result<Self, HandshakeError> {
        let failed = |error| HandshakeError::Socket { peer, error };
        stream.set_nonblocking(false).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Self::on(Box::new(stream), peer))
    }

    /// Takes one end of a pair of sockets, whose other end is moved to `peer` and back.
    #[must_use]
    pub(crate) fn over(stream: UnixStream, peer: SocketAddr) -> Self {
        Self::on(Box::new(stream), peer)
    }

    fn on(stream: Box<dyn Stream>, peer: SocketAddr) -> Self {
        Self {
            stream,
            peer,
            kept: Vec::new(),
            stop: StopView::default(),
            is_ending: false,
        }
    }

    /// From now on, waits end when the run is asked to end.
    pub(super) fn hear(&mut self, stop: StopView) {
        self.stop = stop;
    }

    /// From now on, waits that begin after the run was asked to end continue, so that the peer can
    /// answer.
    pub(super) fn ends(&mut self) {
        self.is_ending = true;
    }

    /// The other end.
    #[must_use]
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Sends `message` as one line, within `limit`.
    ///
    /// # Errors
    /// A message that is longer than a line may be, or an error of the socket.
    pub fn send(
        &mut self,
        message: &impl Serialize,
        limit: Duration,
    ) -> Result<(), HandshakeError> {
        let peer = self.peer;
        let mut line = serde_json::to_vec(message)
            .map_err(|error| HandshakeError::malformed(peer, error.to_string()))?;
        line.push(b'\n');
        if line.len() > MAX_LINE {
            return Err(HandshakeError::TooLong {
                peer,
                limit: MAX_LINE,
            });
        }
        self.send_bytes(&line, limit)
    }

    /// Sends `bytes` as they are, within `limit`.
    ///
    /// # Errors
    /// The socket's.
    pub(super) fn send_bytes(
        &mut self,
        bytes: &[u8],
        limit: Duration,
    ) -> Result<(), HandshakeError> {
        let peer = self.peer;
        let sent = self
            .stream
            .set_write_timeout(Some(limit))
            .and_then(|()| self.stream.write_all(bytes));
        sent.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => HandshakeError::Silent { peer, limit },
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => HandshakeError::Gone { peer },
            _ => HandshakeError::Socket { peer, error },
        })
    }

    /// Waits for a line, for at most `limit` in total.
    ///
    /// # Errors
    /// No line in time, a line that is too long, the end of the connection, an error of the socket,
    /// or a run that is asked to end.
    pub fn receive(&mut self, limit: Duration) -> Result<Vec<u8>, HandshakeError> {
        self.receive_with(limit, Self::take)
    }

    /// Waits for `count` bytes, as [`Lines::receive`] for a line.
    ///
    /// # Errors
    /// Fewer bytes in time, the end of the connection, or an error of the socket.
    pub(super) fn receive_bytes(
        &mut self,
        count: usize,
        limit: Duration,
    ) -> Result<Vec<u8>, HandshakeError> {
        self.receive_with(limit, |lines| Ok(lines.take_bytes(count)))
    }

    /// `count` bytes, if they have arrived. Does not wait.
    ///
    /// # Errors
    /// The end of the connection, or an error of the socket.
    pub(super) fn try_receive_bytes(
        &mut self,
        count: usize,
    ) -> Result<Option<Vec<u8>>, HandshakeError> {
        match self.take_bytes(count) {
            Some(bytes) => Ok(Some(bytes)),
            None => {
                self.read_what_is_there()?;
                Ok(self.take_bytes(count))
            }
        }
    }

    fn receive_with(
        &mut self,
        limit: Duration,
        take: impl Fn(&mut Self) -> Result<Option<Vec<u8>>, HandshakeError>,
    ) -> Result<Vec<u8>, HandshakeError> {
        let peer = self.peer;
        let end = Instant::now() + limit;
        let was_asked = self.is_ending && self.stop.check().is_err();
        loop {
            if let Some(taken) = take(self)? {
                return Ok(taken);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(HandshakeError::Silent { peer, limit });
            }
            if let (false, Err(interrupted)) = (was_asked, self.stop.check()) {
                return Err(HandshakeError::Asked(interrupted));
            }
            let set = self.stream.set_read_timeout(Some(left.min(LOOK)));
            set.map_err(|error| HandshakeError::Socket { peer, error })?;
            self.read()?;
        }
    }

    /// A line, if one has arrived. Does not wait.
    ///
    /// # Errors
    /// As [`Lines::receive`], without the limit.
    pub fn try_receive(&mut self) -> Result<Option<Vec<u8>>, HandshakeError> {
        if let Some(line) = self.take()? {
            return Ok(Some(line));
        }
        self.read_what_is_there()?;
        self.take()
    }

    /// Reads once, without waiting.
    fn read_what_is_there(&mut self) -> Result<(), HandshakeError> {
        let peer = self.peer;
        let failed = |error| HandshakeError::Socket { peer, error };
        self.stream.set_nonblocking(true).map_err(failed)?;
        let read = self.read();
        self.stream.set_nonblocking(false).map_err(failed)?;
        read
    }

    /// Reads once.
    fn read(&mut self) -> Result<(), HandshakeError> {
        let peer = self.peer;
        let mut chunk = [0; CHUNK];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(HandshakeError::Gone { peer }),
            Ok(bytes) => {
                self.kept.extend(chunk.iter().take(bytes));
                Ok(())
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(()),
                ErrorKind::ConnectionReset => Err(HandshakeError::Gone { peer }),
                _ => Err(HandshakeError::Socket { peer, error }),
            },
        }
    }

    /// Takes `count` received bytes, if there are as many.
    fn take_bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        (self.kept.len() >= count).then(|| self.kept.drain(..count).collect())
    }

    /// Takes the first whole line that was received.
    fn take(&mut self) -> Result<Option<Vec<u8>>, HandshakeError> {
        let end = self.kept.iter().position(|byte| *byte == b'\n');
        // Counted with its newline, as when a line is sent.
        if end.map_or(self.kept.len(), |end| end + 1) > MAX_LINE {
            return Err(HandshakeError::TooLong {
                peer: self.peer,
                limit: MAX_LINE,
            });
        }
        Ok(end.map(|end| {
            let mut line: Vec<u8> = self.kept.drain(..=end).collect();
            line.pop();
            line
        }))
    }
}
