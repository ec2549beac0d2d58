//! Requests and replies on a socket, each with a time limit.
//!
//! The other side is not trusted. It may send garbage, refuse, stop or go away. Whatever it does,
//! each exchange ends within its limit. After a failure that leaves the stream in doubt, every
//! further exchange fails at once with the first cause.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use vmm_sys_util::sock_ctrl_msg::ScmSocket;
use zerocopy::{FromBytes, IntoBytes};

use super::protocol::{
    Command, FLAGS_COMMAND, FLAGS_ERROR, FLAGS_KIND, FLAGS_NO_REPLY, FLAGS_REPLY, HEADER, Header,
};
use super::spin::Spin;
use crate::BackendError;
use crate::host::socket;

/// The longest answer that is read: far above anything that the protocol has for us.
const LONGEST: usize = 64 << 10;

/// A connected socket.
#[derive(Debug)]
pub(super) struct Connection {
    device: String,
    limit: Duration,
    stream: Mutex<Stream>,
    failed: OnceLock<BackendError>,
    /// Called once, before anybody sees the first failure.
    on_failure: OnceLock<fn(&BackendError)>,
}

#[derive(Debug)]
struct Stream {
    socket: UnixStream,
    next_id: u16,
    /// Bytes received and not yet parsed are `buffer[..filled]`.
    buffer: Vec<u8>,
    filled: usize,
    spin: Spin,
}

/// How an exchange failed.
enum Failure {
    /// The answer was an error; the stream is intact.
    Errno(u32),
    Io(io::Error),
    Closed,
    Nonsense(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

impl Connection {
    /// Connects to the socket at `path`.
    pub(super) fn new(device: String, path: &Path, limit: Duration) -> Result<Self, BackendError> {
        let socket = connect(path, limit).map_err(|cause| match cause.kind() {
            io::ErrorKind::WouldBlock => BackendError::NoAnswer {
                device: device.clone(),
                during: "the connection request",
                limit,
            },
            _ => not_connected(device.clone(), path, &cause),
        })?;
        Ok(Self {
            device,
            limit,
            stream: Mutex::new(Stream {
                socket,
                next_id: 0,
                buffer: vec![0; 4096],
                filled: 0,
                spin: Spin::new(),
            }),
            failed: OnceLock::new(),
            on_failure: OnceLock::new(),
        })
    }

    pub(super) fn device(&self) -> &str {
        &self.device
    }

    /// The first failure after which nothing works any more.
    /// Fails when the other side has closed the socket: posted writes alone would
    /// not show it.
    pub(super) fn probe_socket(&self) {
        let Ok(stream) = self.stream.try_lock() else {
            // A request is under way, and will fail.
            return;
        };
        let mut socket = libc::pollfd {
            fd: stream.socket.as_raw_fd(),
            events: libc::POLLRDHUP,
            revents: 0,
        };
        // SAFETY: one structure, and no time to wait.
        let ready = unsafe { libc::poll(&raw mut socket, 1, 0) };
        let gone = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;
        if ready > 0 && socket.revents & gone != 0 {
            self.fail(BackendError::Closed {
                device: self.device.clone(),
                during: "the use of its device",
            });
        }
    }

    pub(super) fn failure(&self) -> Option<&BackendError> {
        self.failed.get()
    }

    /// Records `error` unless there was one before; returns the first.
    pub(super) fn fail(&self, error: BackendError) -> BackendError {
        let first = self.failed.get_or_init(|| {
            if let Some(report) = self.on_failure.get() {
                report(&error);
            }
            error
        });
        first.clone()
    }

    /// Calls `report` with the first failure, when there is one; only the first `report` counts.
    pub(super) fn on_failure(&self, report: fn(&BackendError)) {
        let _ = self.on_failure.set(report);
    }

    /// Sends a command and waits for its reply. As much of the reply's body as fits is written to
    /// `reply`. Returns the length of the whole body.
    pub(super) fn request(
        &self,
        command: Command,
        body: &[u8],
        fds: &[BorrowedFd<'_>],
        reply: &mut [u8],
    ) -> Result<usize, BackendError> {
        self.exchange(command, |stream| {
            let id = stream.send(command, FLAGS_COMMAND, body, fds)?;
            stream.receive(id, command, reply, self.limit)
        })
    }

    /// Sends a command that gets no answer.
    pub(super) fn post(&self, command: Command, body: &[u8]) -> Result<(), BackendError> {
        self.exchange(command, |stream| {
            stream.send(command, FLAGS_NO_REPLY, body, &[])?;
            Ok(())
        })
    }

    fn exchange<R>(
        &self,
        command: Command,
        talk: impl FnOnce(&mut Stream) -> Result<R, Failure>,
    ) -> Result<R, BackendError> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = self.failed.get() {
            return Err(first.clone());
        }
        let (device, during) = (self.device.clone(), command.name());
        talk(&mut stream).map_err(|failure| match failure {
            Failure::Errno(errno) => BackendError::Refused {
                device,
                during,
                cause: match i32::try_from(errno) {
                    Ok(errno) if errno != 0 => io::Error::from_raw_os_error(errno).to_string(),
                    _ => "no reason given".to_owned(),
                },
            },
            Failure::Closed => self.fail(BackendError::Closed { device, during }),
            Failure::Nonsense(what) => self.fail(BackendError::Protocol { device, what }),
            Failure::Io(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.fail(BackendError::NoAnswer {
                    device,
                    during,
                    limit: self.limit,
                })
            }
            Failure::Io(error) => self.fail(BackendError::system(&device, during, &error)),
        })
    }
}

impl Stream {
    fn send(
        &mut self,
        command: Command,
        flags: u32,
        body: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<u16, Failure> {
        /// The size of every command except a long VERSION text or region write.
        const SHORT: usize = 64;
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let header = Header {
            message_id: id,
            command: command as u16,
            message_size: (HEADER + body.len()) as u32,
            flags,
            error: 0,
        };
        // One write for a whole message, so that the other side wakes once.
        let mut short = [0; SHORT];
        let long;
        let message = match short.get_mut(..HEADER + body.len()) {
            Some(message) => {
                let (to_header, to_body) = message.split_at_mut(HEADER);
                to_header.copy_from_slice(header.as_bytes());
                to_body.copy_from_slice(body);
                &*message
            }
            None => {
                long = [header.as_bytes(), body].concat();
                long.as_slice()
            }
        };
        let mut sent = 0;
        if !fds.is_empty() {
            let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
            let done = self.socket.send_with_fds(&[message], &raw);
            sent = done.map_err(|error| io::Error::from_raw_os_error(error.errno()))?;
        }
        self.socket
            .write_all(message.get(sent..).unwrap_or_default())?;
        Ok(id)
    }

    /// Reads until `bytes` bytes are in the buffer.
    fn fill(&mut self, bytes: usize, end: Instant) -> Result<(), Failure> {
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        while self.filled < bytes {
            self.spin.wait(self.socket.as_fd());
            let rest = self.buffer.get_mut(self.filled..).unwrap_or_default();
            match self.socket.read(rest) {
                Ok(0) => return Err(Failure::Closed),
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            // Each read has the socket's limit; bytes that come one by one must not add up to more.
            if self.filled < bytes && Instant::now() > end {
                return Err(io::Error::from(io::ErrorKind::WouldBlock).into());
            }
        }
        Ok(())
    }

    /// Waits for the reply to message `id`.
    fn receive(
        &mut self,
        id: u16,
        command: Command,
        reply: &mut [u8],
        limit: Duration,
    ) -> Result<usize, Failure> {
        let end = Instant::now() + limit;
        self.fill(HEADER, end)?;
        let start = self.buffer.get(..HEADER).unwrap_or_default();
        let header = Header::read_from_bytes(start)
            .map_err(|_| Failure::Nonsense("no header".to_owned()))?;
        let size = header.message_size as usize;
        if header.flags & FLAGS_KIND != FLAGS_REPLY || !(HEADER..=LONGEST).contains(&size) {
            return Err(Failure::Nonsense(format!(
                "{} was answered by a message of kind {} and {size} bytes",
                command.name(),
                header.flags & FLAGS_KIND
            )));
        }
        self.fill(size, end)?;
        let is_error = header.flags & FLAGS_ERROR != 0;
        if header.message_id != id || header.command != command as u16 {
            // Only a posted command can be refused without a question.
            return Err(Failure::Nonsense(format!(
                "{} (message {id}) was answered by {} {} to message {}",
                command.name(),
                if is_error {
                    "the refusal of"
                } else {
                    "a reply to"
                },
                name_of(header.command),
                header.message_id
            )));
        }
        let body = self.buffer.get(HEADER..size).unwrap_or_default();
        let whole = body.len();
        for (to, from) in reply.iter_mut().zip(body) {
            *to = *from;
        }
        self.buffer.copy_within(size..self.filled, 0);
        self.filled -= size;
        if is_error {
            return Err(Failure::Errno(header.error));
        }
        Ok(whole)
    }
}

fn name_of(command: u16) -> String {
    const KNOWN: [Command; 10] = [
        Command::Version,
        Command::DmaMap,
        Command::DmaUnmap,
        Command::DeviceGetInfo,
        Command::DeviceGetRegionInfo,
        Command::GetIrqInfo,
        Command::SetIrqs,
        Command::RegionRead,
        Command::RegionWrite,
        Command::DeviceReset,
    ];
    let known = KNOWN.iter().find(|known| **known as u16 == command);
    known.map_or_else(
        || format!("command {command}"),
        |known| known.name().to_owned(),
    )
}

/// Why there is no connection with `path`, and what to do.
fn not_connected(device: String, path: &Path, cause: &io::Error) -> BackendError {
    let what_else = socket::why_not(path);
    let remedy = match cause.kind() {
        _ if what_else.is_some() => {
            "name the socket that a server listens on (`e810 sim --socket PATH`)"
        }
        io::ErrorKind::PermissionDenied => {
            "the socket is for the user who started the server: connect as that user"
        }
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "start the server first, and check the path"
        }
        _ => "check the path",
    };
    BackendError::Connect {
        device,
        cause: what_else.map_or_else(|| cause.to_string(), str::to_owned),
        remedy,
        errno: cause.raw_os_error(),
    }
}

/// Connects, with `limit` on the connection and on everything after it.
///
/// The standard library cannot limit the time of the connection itself, which waits while the
/// listener's queue is full.
fn connect(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    // SAFETY: no memory is touched.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else has.
    let socket = unsafe { UnixStream::from_raw_fd(fd) };
    socket.set_read_timeout(Some(limit))?;
    socket.set_write_timeout(Some(limit))?;
    // SAFETY: all zeros is an address of family 0.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let name = path.as_os_str().as_bytes();
    // The last byte stays zero.
    if name.len() >= address.sun_path.len() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path is too long for a socket (at most 107 bytes)",
        ));
    }
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: an address of that length, alive for the call.
    let connected = unsafe { libc::connect(fd, (&raw const address).cast(), length) };
    if connected != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}
