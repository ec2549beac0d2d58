//! Unix sockets that keep messages whole (SOCK_SEQPACKET), and pass files with them.

use std::ffi::c_int;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

/// Connections that wait to be accepted.
const BACKLOG: c_int = 128;
/// Room for the header of one descriptor or a few, aligned for it. The kernel closes descriptors
/// beyond.
type Control = [u64; 8];

/// Who is at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Number of its process when it connected, or began to listen.
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
}

/// Where a socket listens.
#[derive(Clone, Copy)]
pub struct Address {
    raw: libc::sockaddr_un,
    length: libc::socklen_t,
}

impl Address {
    /// A path of the file system.
    ///
    /// # Errors
    /// The path has more than 107 bytes, or a zero.
    pub fn at_path(path: &Path) -> io::Result<Self> {
        let bytes = path.as_os_str().as_bytes();
        let mut address = Self::empty();
        // One stays zero.
        if bytes.len() >= address.raw.sun_path.len() || bytes.contains(&0) {
            let why = "the path of a socket has at most 107 bytes, and no zero";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        for (place, byte) in address.raw.sun_path.iter_mut().zip(bytes) {
            *place = byte.cast_signed();
        }
        Ok(address)
    }

    /// A name that is in no file system. It ends with its socket; every process with the same
    /// network can connect there, of any user.
    ///
    /// # Errors
    /// The name has more than 107 bytes.
    pub fn of_name(name: &str) -> io::Result<Self> {
        let mut address = Self::empty();
        // It begins with a zero.
        let places = address.raw.sun_path.get_mut(1..).unwrap_or_default();
        if name.len() > places.len() {
            let why = "the name of a socket has at most 107 bytes";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        for (place, byte) in places.iter_mut().zip(name.bytes()) {
            *place = byte.cast_signed();
        }
        let head = mem::offset_of!(libc::sockaddr_un, sun_path) + 1;
        address.length = (head + name.len()) as libc::socklen_t;
        Ok(address)
    }

    fn empty() -> Self {
        // SAFETY: numbers.
        let mut raw: libc::sockaddr_un = unsafe { mem::zeroed() };
        raw.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        Self { raw, length }
    }
}

/// Limits what waits for the other end, except where that says itself that it does not wait; zero:
/// no limit.
fn set_send_limit(socket: &OwnedFd, limit: Duration) -> io::Result<()> {
    let limit = libc::timeval {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_usec: 0,
    };
    let (option, length) = (libc::SO_SNDTIMEO, size_of_val(&limit) as libc::socklen_t);
    let value = (&raw const limit).cast();
    // SAFETY: a value of this length.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, length) })
}

/// One end of a connection.
#[derive(Debug)]
pub struct Seqpacket(OwnedFd);

impl Seqpacket {
    /// Connects to who listens at `address`; waits as long as `limit` for one that takes nobody in, as
    /// a process that is stopped.
    ///
    /// # Errors
    /// The system's: nobody listens there; [`io::ErrorKind::WouldBlock`] after the wait.
    pub fn connect(address: &Address, limit: Duration) -> io::Result<Self> {
        let socket = new_socket(0)?;
        set_send_limit(&socket, limit)?;
        connect(&socket, address)?;
        set_send_limit(&socket, Duration::ZERO)?;
        Ok(Self(socket))
    }

    /// The same, of a socket that never waits: [`io::ErrorKind::WouldBlock`] in its place, also
    /// where many others wait to be accepted.
    ///
    /// # Errors
    /// The system's: nobody listens there.
    pub fn connect_nonblocking(address: &Address) -> io::Result<Self> {
        let socket = new_socket(libc::SOCK_NONBLOCK)?;
        connect(&socket, address)?;
        Ok(Self(socket))
    }

    /// Two ends, connected.
    ///
    /// # Errors
    /// The system's.
    pub fn pair() -> io::Result<[Self; 2]> {
        let mut ends: [RawFd; 2] = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: room for two descriptors.
        check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
        // SAFETY: new descriptors that nobody else has.
        Ok(ends.map(|end| Self(unsafe { OwnedFd::from_raw_fd(end) })))
    }

    /// Who is at the other end, as the kernel says.
    ///
    /// # Errors
    /// The system's.
    pub fn peer(&self) -> io::Result<Peer> {
        // SAFETY: numbers.
        let mut who: libc::ucred = unsafe { mem::zeroed() };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: room for the structure of that length.
        let done = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut who).cast(),
                &raw mut length,
            )
        };
        check(done)?;
        Ok(Peer {
            pid: who.pid.cast_unsigned(),
            uid: who.uid,
            gid: who.gid,
        })
    }

    /// Sends a message, and a file with it. Never waits.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::WouldBlock`] if there is no room.
    pub fn send(&self, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut control: Control = [0; 8];
        let mut from = libc::iovec {
            // The kernel only reads there.
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: numbers and null pointers.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = &raw mut from;
        header.msg_iovlen = 1;
        if let Some(file) = file {
            let length = size_of::<RawFd>() as libc::c_uint;
            header.msg_control = control.as_mut_ptr().cast();
            // SAFETY: no memory is touched.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(length) } as _;
            // SAFETY: `control` has room for one descriptor and its header, and is aligned for it.
            unsafe {
                let part = libc::CMSG_FIRSTHDR(&raw const header);
                (*part).cmsg_level = libc::SOL_SOCKET;
                (*part).cmsg_type = libc::SCM_RIGHTS;
                (*part).cmsg_len = libc::CMSG_LEN(length) as _;
                let data = libc::CMSG_DATA(part).cast::<RawFd>();
                data.write_unaligned(file.as_raw_fd());
            }
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the header names memory that lives for the call.
        let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const header, flags) };
        match sent {
            ..0 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Receives a message and the first file that comes with it; any others are closed. Programs
    /// that this process starts do not get them. A message that is longer than `bytes` is cut; 0
    /// bytes: the other end is closed.
    ///
    /// # Errors
    /// The system's.
    pub fn receive(&self, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        let mut control: Control = [0; 8];
        let mut into = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: numbers and null pointers.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = &raw mut into;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let flags = libc::MSG_CMSG_CLOEXEC;
        // SAFETY: room for as much as the header says.
        let received = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, flags) };
        let length = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        let mut first = None;
        // SAFETY: the header that the kernel has filled in.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
        // SAFETY: null, or a header in `control`, which the kernel has filled in.
        while let Some(part) = unsafe { next.as_ref() } {
            if (part.cmsg_level, part.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                // SAFETY: no memory is touched.
                let head = unsafe { libc::CMSG_LEN(0) } as usize;
                let count = (part.cmsg_len.saturating_sub(head)) / size_of::<RawFd>();
                // SAFETY: what follows the header are so many descriptors.
                let data = unsafe { libc::CMSG_DATA(next) }.cast::<RawFd>();
                for index in 0..count {
                    // SAFETY: as above; the kernel has made them for this process just now.
                    let file = unsafe { OwnedFd::from_raw_fd(data.add(index).read_unaligned()) };
                    first.get_or_insert(file);
                }
            }
            // SAFETY: as above.
            next = unsafe { libc::CMSG_NXTHDR(&raw const header, next) };
        }
        Ok((length, first))
    }

    /// Closes the connection for both ends, whoever has a copy of the descriptor.
    pub fn shut_down(&self) {
        // It fails only if the other end has done so.
        // SAFETY: no memory is touched.
        let _ = unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

impl AsFd for Seqpacket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Seqpacket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Where connections arrive.
#[derive(Debug)]
pub struct Acceptor(OwnedFd);

impl Acceptor {
    /// Takes `address`; nobody can connect before [`Self::listen`].
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::AddrInUse`] if another socket has it.
    pub fn bind(address: &Address) -> io::Result<Self> {
        let socket = new_socket(0)?;
        let raw = (&raw const address.raw).cast();
        // SAFETY: an address of this length.
        check(unsafe { libc::bind(socket.as_raw_fd(), raw, address.length) })?;
        Ok(Self(socket))
    }

    /// From now on others can connect.
    ///
    /// # Errors
    /// The system's.
    pub fn listen(&self) -> io::Result<()> {
        // SAFETY: no memory is touched.
        check(unsafe { libc::listen(self.0.as_raw_fd(), BACKLOG) })
    }

    /// The next connection; waits for one.
    ///
    /// # Errors
    /// The system's.
    pub fn accept(&self) -> io::Result<Seqpacket> {
        self.accept_with(0)
    }

    /// The next connection, if there is one: a socket that never waits.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::WouldBlock`]: nobody waits.
    pub fn accept_nonblocking(&self) -> io::Result<Seqpacket> {
        // SAFETY: no memory is touched.
        check(unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })?;
        self.accept_with(libc::SOCK_NONBLOCK)
    }

    fn accept_with(&self, flags: c_int) -> io::Result<Seqpacket> {
        let flags = flags | libc::SOCK_CLOEXEC;
        loop {
            let (none, no_length) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: no address is asked for.
            let taken = unsafe { libc::accept4(self.0.as_raw_fd(), none, no_length, flags) };
            match check(taken) {
                // SAFETY: a new descriptor that nobody else has.
                Ok(()) => return Ok(Seqpacket(unsafe { OwnedFd::from_raw_fd(taken) })),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A socket that listens already.
impl From<OwnedFd> for Acceptor {
    fn from(socket: OwnedFd) -> Self {
        Self(socket)
    }
}

impl AsFd for Acceptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Acceptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The user of this process, as sockets say it.
#[must_use]
pub fn own_uid() -> u32 {
    // SAFETY: no memory is touched, and it cannot fail.
    unsafe { libc::geteuid() }
}

fn connect(socket: &OwnedFd, address: &Address) -> io::Result<()> {
    let raw = (&raw const address.raw).cast();
    // SAFETY: an address of this length.
    check(unsafe { libc::connect(socket.as_raw_fd(), raw, address.length) })
}

fn new_socket(flags: c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | flags;
    // SAFETY: no memory is touched.
    let socket = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    check(socket)?;
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

fn check(done: c_int) -> io::Result<()> {
    match done {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{PAGE, SharedMemory};

    fn name(what: &str) -> Address {
        Address::of_name(&format!("e810-test {what} {}", std::process::id())).unwrap()
    }

    #[test]
    fn a_name_is_taken_while_its_socket_lives_and_says_who_listens() {
        let at = name("taken");
        assert!(Seqpacket::connect_nonblocking(&at).is_err());
        let acceptor = Acceptor::bind(&at).unwrap();
        let second = Acceptor::bind(&at).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        assert!(Seqpacket::connect_nonblocking(&at).is_err(), "not yet");
        acceptor.listen().unwrap();
        let nobody = acceptor.accept_nonblocking().unwrap_err();
        assert_eq!(nobody.kind(), io::ErrorKind::WouldBlock);
        let one = Seqpacket::connect_nonblocking(&at).unwrap();
        let other = acceptor.accept_nonblocking().unwrap();
        for end in [&one, &other] {
            let peer = end.peer().unwrap();
            assert_eq!((peer.pid, peer.uid), (std::process::id(), own_uid()));
        }
        drop(acceptor);
        drop(Acceptor::bind(&at).unwrap());
        assert!(Address::of_name(&"x".repeat(108)).is_err());
        assert!(Address::at_path(Path::new(&"x".repeat(108))).is_err());
    }

    #[test]
    fn messages_bring_files_and_nobody_waits() {
        let at = name("files");
        let acceptor = Acceptor::bind(&at).unwrap();
        acceptor.listen().unwrap();
        let one = Seqpacket::connect_nonblocking(&at).unwrap();
        let other = acceptor.accept_nonblocking().unwrap();
        let mut bytes = [0; 8];
        let nothing = other.receive(&mut bytes).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        let memory = SharedMemory::new(PAGE, false).unwrap();
        one.send(b"file", Some(memory.file())).unwrap();
        one.send(b"no file", None).unwrap();
        let (length, file) = other.receive(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"file");
        SharedMemory::of_file(file.unwrap(), PAGE).unwrap();
        let (length, file) = other.receive(&mut bytes).unwrap();
        assert!(&bytes[..length] == b"no file" && file.is_none());
        let full = (0..1 << 20).find_map(|_| one.send(&[1], None).err());
        assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
        one.shut_down();
        while other.receive(&mut bytes).unwrap().0 != 0 {}
    }
}
