//! A link between two processes: a Unix socket that keeps messages whole (SOCK_SEQPACKET).

use std::collections::VecDeque;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use e810_backends::host::{Host, process};
pub use e810_shared::seqpacket::Peer;
use e810_shared::seqpacket::{Address, Seqpacket};

use crate::link::{Ended, Link, Message};
use crate::lock;
use crate::messages::MOST;

/// Messages that wait for a program which does not read. One that lets more wait is cut off.
const WAITING: usize = 1 << 16;
/// Messages of a process that is gone which are read: more than the system keeps of one. Its
/// children may go on sending.
const LAST: u32 = 1024;
/// How long an owner may take to take a program in.
const CONNECT: Duration = Duration::from_secs(10);
/// The option of a socket that gives a descriptor of the peer's process (Linux 6.5).
const SO_PEERPIDFD: c_int = 77;
/// One end.
#[derive(Debug)]
pub struct Socket {
    socket: Seqpacket,
    /// Becomes readable when the process at the other end is gone. Its socket may live on in a
    /// child of `fork`.
    peer: Option<OwnedFd>,
    /// Messages that were read since it was gone.
    last: AtomicU32,
    waiting: Mutex<Waiting>,
}

/// What the other end has not read.
#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Message>,
    is_cut_off: bool,
}

impl Socket {
    /// Connects to the owner that listens at `path`; waits 10 s at most for one that takes nobody
    /// in, as a process that is stopped.
    ///
    /// # Errors
    /// The system's: nobody listens there; [`io::ErrorKind::WouldBlock`] after the wait.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let socket = Seqpacket::connect(&Address::at_path(path)?, CONNECT)?;
        Ok(Self::over(socket))
    }

    /// Two ends, connected.
    ///
    /// # Errors
    /// The system's.
    pub fn pair() -> io::Result<[Self; 2]> {
        Ok(Seqpacket::pair()?.map(Self::over))
    }

    /// Of a connection from a process, whose end it notices.
    ///
    /// # Errors
    /// The system's; [`is_of_the_dead`] if the process is gone.
    pub(crate) fn of_peer(socket: Seqpacket) -> io::Result<Self> {
        Self::over(socket).watching_peer()
    }

    fn over(socket: Seqpacket) -> Self {
        Self {
            socket,
            peer: None,
            last: AtomicU32::new(0),
            waiting: Mutex::default(),
        }
    }

    /// Ends also when the process that connected is gone.
    fn watching_peer(mut self) -> io::Result<Self> {
        let mut pidfd: RawFd = -1;
        let mut length = size_of::<RawFd>() as libc::socklen_t;
        // SAFETY: room for a descriptor.
        let asked = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_PEERPIDFD,
                (&raw mut pidfd).cast(),
                &raw mut length,
            )
        };
        if asked != 0 {
            // Before Linux 6.5: by the number, which may be another process's by now.
            let pid = self.peer()?.pid;
            // SAFETY: no memory is touched.
            let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
            pidfd = RawFd::try_from(opened).unwrap_or(-1);
            check(pidfd)?;
        }
        // SAFETY: a new descriptor that nobody else has, closed in programs that this one starts.
        self.peer = Some(unsafe { OwnedFd::from_raw_fd(pidfd) });
        Ok(self)
    }

    /// Who is at the other end, as the kernel says.
    ///
    /// # Errors
    /// The system's.
    pub fn peer(&self) -> io::Result<Peer> {
        self.socket.peer()
    }

    /// Sends what waits, as far as there is room.
    fn flush(&self, waiting: &mut VecDeque<Message>) -> Result<(), Ended> {
        while let Some(message) = waiting.front() {
            match self.send_now(message) {
                Ok(()) => drop(waiting.pop_front()),
                Err(libc::EAGAIN) => return Ok(()),
                Err(libc::EINTR) => {}
                Err(_) => return Err(Ended),
            }
        }
        Ok(())
    }

    /// The error number if it is not sent.
    fn send_now(&self, message: &Message) -> Result<(), c_int> {
        let file = message.file.as_ref().map(AsFd::as_fd);
        let sent = self.socket.send(&message.bytes, file);
        sent.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// Waits until there is something to read, or room for what waits; for `limit` at most.
    fn wait(&self, limit: Duration, for_room: bool) -> Result<bool, Ended> {
        let poll = |fd, events| libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        let wanted = libc::POLLIN | if for_room { libc::POLLOUT } else { 0 };
        // A negative descriptor is passed over.
        let peer = self.peer.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut polled = [
            poll(self.socket.as_raw_fd(), wanted),
            poll(peer, libc::POLLIN),
        ];
        let limit = c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: two structures.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), 2, limit) };
        let [socket, peer] = polled;
        let is_readable = socket.revents & (libc::POLLIN | libc::POLLHUP | libc::POLLERR) != 0;
        match ready {
            ..0 if last_error() == libc::EINTR => Ok(false),
            ..0 => Err(Ended),
            // What it has sent before comes first.
            _ if peer.revents != 0 => match self.last.fetch_add(1, Ordering::Relaxed) {
                ..LAST if is_readable => Ok(true),
                _ => Err(Ended),
            },
            _ => Ok(is_readable),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Link for Socket {
    fn send(&self, message: Message) -> Result<(), Ended> {
        let mut waiting = lock(&self.waiting);
        if waiting.is_cut_off {
            return Err(Ended);
        }
        if waiting.messages.len() >= WAITING {
            *waiting = Waiting {
                is_cut_off: true,
                ..Waiting::default()
            };
            // The other end finds its socket closed, and so does who receives here.
            self.socket.shut_down();
            return Err(Ended);
        }
        waiting.messages.push_back(message);
        self.flush(&mut waiting.messages)
    }

    fn receive(&self, limit: Duration) -> Result<Option<Message>, Ended> {
        let for_room = {
            let mut waiting = lock(&self.waiting);
            self.flush(&mut waiting.messages)?;
            !waiting.messages.is_empty()
        };
        if !self.wait(limit, for_room)? {
            return Ok(None);
        }
        // One byte more than a message may have.
        let mut bytes = vec![0; MOST + 1];
        let (length, file) = self.socket.receive(&mut bytes).map_err(|_| Ended)?;
        if length == 0 || length > MOST {
            return Err(Ended);
        }
        bytes.truncate(length);
        Ok(Some(Message { bytes, file }))
    }

    fn unread(&self) -> usize {
        lock(&self.waiting).messages.len()
    }

    fn is_cut_off(&self) -> bool {
        lock(&self.waiting).is_cut_off
    }
}

/// A process, as messages name it.
#[must_use]
pub fn named(pid: u32) -> String {
    match process::name(&Host::default(), &pid.to_string()) {
        Some(name) => format!("process {pid} ({name})"),
        None => format!("process {pid}"),
    }
}

/// What kernels say when a process is asked for that does not exist any more.
pub(crate) fn is_of_the_dead(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ESRCH | libc::EINVAL | libc::ENODATA)
    )
}

pub(crate) fn check(done: c_int) -> io::Result<()> {
    match done {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn last_error() -> c_int {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Seek as _, Write as _};
    use std::thread;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    fn bytes(message: Option<Message>) -> Vec<u8> {
        message.expect("a message").bytes
    }

    #[test]
    fn messages_are_whole_and_in_order_and_bring_files() {
        let [one, other] = Socket::pair().unwrap();
        assert_eq!(one.peer().unwrap().pid, std::process::id());
        assert!(other.receive(Duration::ZERO).unwrap().is_none());
        let mut file = crate_file();
        file.write_all(b"theirs").unwrap();
        for length in [1, 7, MOST] {
            one.send(vec![7; length].into()).unwrap();
        }
        one.send(Message {
            bytes: vec![8],
            file: Some(file.into()),
        })
        .unwrap();
        for length in [1, 7, MOST] {
            assert_eq!(bytes(other.receive(SOON).unwrap()), vec![7; length]);
        }
        let brought = other.receive(SOON).unwrap().unwrap();
        assert_eq!(brought.bytes, [8]);
        let mut file = File::from(brought.file.unwrap());
        // SAFETY: no memory is touched.
        let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "theirs");
        // What is too long ends it, and so does an end that is dropped, after what it has sent.
        one.send(vec![9; MOST + 1].into()).unwrap();
        assert_eq!(other.receive(SOON).unwrap_err(), Ended);
        let [one, other] = Socket::pair().unwrap();
        one.send(vec![1].into()).unwrap();
        drop(one);
        assert_eq!(bytes(other.receive(SOON).unwrap()), [1]);
        assert_eq!(other.receive(SOON).unwrap_err(), Ended);
        assert_eq!(other.send(vec![1].into()).unwrap_err(), Ended);
    }

    /// A file without a name.
    fn crate_file() -> File {
        // SAFETY: the name is a string that ends with a zero.
        let file = unsafe { libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(file >= 0);
        // SAFETY: a new descriptor that nobody else has.
        unsafe { File::from_raw_fd(file) }
    }

    #[test]
    fn who_sends_does_not_wait_and_who_does_not_read_is_cut_off() {
        let [one, other] = Socket::pair().unwrap();
        let message = |number: u32| Message::from(number.to_le_bytes().to_vec());
        // Far more than the system keeps.
        let most = WAITING as u32;
        for number in 0..most {
            one.send(message(number)).unwrap();
        }
        // While it reads, everything comes, in order; the sender's own thread sends what waits.
        thread::scope(|scope| {
            scope.spawn(|| while one.receive(SOON).unwrap().is_none() {});
            for number in 0..most {
                assert_eq!(bytes(other.receive(SOON).unwrap()), number.to_le_bytes());
            }
            other.send(message(0)).unwrap();
        });
        let refused = (0..3 * most).find(|number| one.send(message(*number)).is_err());
        assert!(refused.is_some_and(|number| number >= most), "{refused:?}");
        assert_eq!(one.receive(SOON).unwrap_err(), Ended);
        // What it has not read is given back, and nothing waits for it any more.
        assert!(one.send(message(0)).is_err());
        assert!(one.is_cut_off() && !other.is_cut_off());
        assert_eq!(one.unread(), 0);
    }
}
