//! A link between two processes: a Unix socket that keeps messages whole (SOCK_SEQPACKET).

use std::collections::VecDeque;
use std::ffi::c_int;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use e810_backends::host::{Host, process};
pub use e810_shared::seqpacket::Peer;
use e810_shared::seqpacket::{Acceptor, Address, Seqpacket};

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
/// Permissions of a new socket.
const OWNER_ALONE: u32 = 0o600;

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

/// Where an owner waits for programs.
#[derive(Debug)]
pub struct Listener {
    socket: Acceptor,
    path: PathBuf,
    /// Locked as long as this lives, so that two owners that start at a time do not both take the
    /// place of one that is dead. `None`: somebody else keeps the socket's file.
    lock: Option<File>,
}

impl Listener {
    /// Listens at `path`. A socket that is there and that nobody listens at is replaced. A file
    /// beside it, `path` and `.lock`, is locked, has the number of this process, and stays.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::AddrInUse`] if somebody listens there, with the number of that
    /// process if it is known, or if what is there is no socket.
    pub fn bind(path: &Path) -> io::Result<Self> {
        // First, so that no file is left beside what is somebody else's.
        let there = fs::symlink_metadata(path).map(|there| there.file_type());
        if there.is_ok_and(|there| !there.is_socket()) {
            return Err(no_socket(path));
        }
        let lock = lock_beside(path)?;
        let address = Address::at_path(path)?;
        let socket = match Acceptor::bind(&address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                // It may have come just now. A file that is no socket refuses connections, too.
                let is_socket = fs::symlink_metadata(path)?.file_type().is_socket();
                if !is_socket {
                    return Err(no_socket(path));
                }
                let nobody = Err(io::ErrorKind::ConnectionRefused);
                if Socket::connect(path)
                    .map_err(|refused| refused.kind())
                    .map(drop)
                    != nobody
                {
                    return Err(held(path));
                }
                fs::remove_file(path)?;
                Acceptor::bind(&address)?
            }
            bound => bound?,
        };
        // Before anybody can connect.
        fs::set_permissions(path, fs::Permissions::from_mode(OWNER_ALONE))?;
        socket.listen()?;
        Ok(Self {
            socket,
            path: path.to_owned(),
            lock: Some(lock),
        })
    }

    /// On a socket that listens at `path`, and that somebody else keeps there.
    pub(crate) fn handed_over(socket: OwnedFd, path: PathBuf) -> Self {
        Self {
            socket: socket.into(),
            path,
            lock: None,
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this process has made the socket there, and may remove it.
    #[must_use]
    pub const fn is_maker(&self) -> bool {
        self.lock.is_some()
    }

    /// The next program; waits for one.
    ///
    /// # Errors
    /// The system's.
    pub fn accept(&self) -> io::Result<Socket> {
        loop {
            match Socket::over(self.socket.accept()?).watching_peer() {
                // One that has died since it connected holds up nobody.
                Err(error) if is_of_the_dead(&error) => {}
                watching => return watching,
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Whoever looks for it finds nothing, and not a socket without an owner.
        if self.is_maker() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The file beside the socket.
fn lock_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Locks the file beside the socket, and writes this process's number there.
fn lock_beside(path: &Path) -> io::Result<File> {
    // Says what is wrong with the path of the socket first.
    Address::at_path(path)?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    options.mode(OWNER_ALONE).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(lock_of(path))?;
    // SAFETY: no memory is touched.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(held(path)),
        locked => locked?,
    }
    // For a message only; the lock does without it, as on a full disk.
    let _ = file.set_len(0);
    let _ = writeln!(file, "{}", std::process::id());
    Ok(file)
}

/// A process, as messages name it.
#[must_use]
pub fn named(pid: u32) -> String {
    match process::name(&Host::default(), &pid.to_string()) {
        Some(name) => format!("process {pid} ({name})"),
        None => format!("process {pid}"),
    }
}

/// Somebody else has the socket.
fn held(path: &Path) -> io::Error {
    let by = Socket::connect(path).and_then(|socket| socket.peer());
    let by = by.map(|Peer { pid, .. }| pid).ok();
    // Its socket may have been removed.
    let in_lock = || fs::read_to_string(lock_of(path)).ok()?.trim().parse().ok();
    let who = by.or_else(in_lock);
    let who = who.map_or_else(|| "another process".to_owned(), named);
    io::Error::new(
        io::ErrorKind::AddrInUse,
        format!(
            "{}: {who} serves there: use it (`e810 run`), end it, or name another place (--at PATH)",
            path.display()
        ),
    )
}

/// Something that is no socket, and perhaps somebody's, is in the place of one.
fn no_socket(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::AddrInUse,
        format!(
            "{} is {} and no socket: name another place (--at PATH)",
            path.display(),
            kind_of(path)
        ),
    )
}

/// What there is in the place of a socket.
pub(crate) fn kind_of(path: &Path) -> &'static str {
    let there = fs::symlink_metadata(path).map(|there| there.file_type());
    match there {
        Ok(there) if there.is_dir() => "a folder",
        Ok(there) if there.is_symlink() => "a symbolic link",
        _ => "a file",
    }
}

/// What kernels say when a process is asked for that does not exist any more.
fn is_of_the_dead(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ESRCH | libc::EINVAL | libc::ENODATA)
    )
}

fn check(done: c_int) -> io::Result<()> {
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
    use std::io::{Read as _, Seek as _};
    use std::mem;
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

    #[test]
    fn a_process_is_gone_although_its_child_has_the_socket() {
        let name = format!("e810-child-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = Listener::bind(&path).unwrap();
        let address = Address::at_path(&path).unwrap();
        // SAFETY: the child makes system calls only, with what was made before.
        unsafe {
            if libc::fork() == 0 {
                let Ok(socket) = Seqpacket::connect(&address, SOON) else {
                    libc::_exit(1)
                };
                let socket = socket.as_raw_fd();
                let child = libc::fork();
                if child == 0 {
                    libc::pause();
                } else {
                    libc::send(socket, (&raw const child).cast(), size_of_val(&child), 0);
                }
                libc::_exit(0);
            }
        }
        let program = listener.accept().unwrap();
        let child = bytes(program.receive(SOON).unwrap());
        let child = libc::pid_t::from_ne_bytes(child.try_into().unwrap());
        let ended = loop {
            match program.receive(SOON) {
                Ok(None) => {}
                other => break other.map(|_| ()),
            }
        };
        assert_eq!(ended, Err(Ended));
        // SAFETY: what this test has started.
        unsafe {
            assert_eq!(
                libc::kill(child, libc::SIGKILL),
                0,
                "it has the socket still"
            );
            libc::wait(std::ptr::null_mut());
        }
        drop(listener);
        let _ = fs::remove_file(lock_of(&path));
    }

    #[test]
    fn a_process_is_gone_although_its_children_go_on_sending() {
        let name = format!("e810-sends-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = Listener::bind(&path).unwrap();
        let address = Address::at_path(&path).unwrap();
        // SAFETY: the child makes system calls only, with what was made before.
        let process = unsafe {
            let process = libc::fork();
            if process == 0 {
                let Ok(socket) = Seqpacket::connect(&address, SOON) else {
                    libc::_exit(1)
                };
                let socket = socket.as_raw_fd();
                for _ in 0..8 {
                    if libc::fork() == 0 {
                        while libc::send(socket, [1_u8].as_ptr().cast(), 1, libc::MSG_NOSIGNAL) > 0
                        {
                        }
                        libc::_exit(0);
                    }
                }
                libc::_exit(0);
            }
            process
        };
        let program = listener.accept().unwrap();
        // SAFETY: what this test has started.
        unsafe { libc::waitpid(process, std::ptr::null_mut(), 0) };
        // Far more than the system keeps.
        let ended = (0..WAITING).find_map(|_| program.receive(SOON).err());
        // Its children end with the connection.
        program.socket.shut_down();
        assert!(
            ended.is_some(),
            "{WAITING} messages came after the process had ended"
        );
    }

    /// As a process leaves its socket that is killed.
    fn stale(path: &Path) {
        // A child that another test has forked has copies of what is open here, until it ends.
        let wait_for = |lock: fn(&Path) -> io::Result<()>| {
            let limit = std::time::Instant::now() + SOON;
            while let Err(error) = lock(path) {
                assert!(std::time::Instant::now() < limit, "{error}");
                thread::sleep(Duration::from_millis(5));
            }
        };
        wait_for(|path| lock_beside(path).map(drop));
        let killed = Listener::bind(path).unwrap();
        let (socket, lock) = (
            killed.socket.as_raw_fd(),
            killed.lock.as_ref().unwrap().as_raw_fd(),
        );
        mem::forget(killed);
        for fd in [socket, lock] {
            // SAFETY: nobody else has it any more.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        assert!(path.exists());
        wait_for(|path| lock_beside(path).map(drop));
        wait_for(|path| match Socket::connect(path) {
            Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
            Err(_) => Ok(()),
        });
    }

    #[test]
    fn of_those_who_start_at_a_time_one_takes_the_place_of_the_dead() {
        let folder = std::env::temp_dir().join(format!("e810-race-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("e810.sock");
        for _ in 0..20 {
            stale(&path);
            let gate = std::sync::Barrier::new(4);
            let bound: Vec<_> = thread::scope(|scope| {
                let bind = || {
                    gate.wait();
                    Listener::bind(&path).map_err(|error| error.kind())
                };
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(bind)).collect();
                threads.into_iter().map(|one| one.join().unwrap()).collect()
            });
            let refused = bound.iter().filter_map(|one| one.as_ref().err());
            assert_eq!(refused.collect::<Vec<_>>(), [&io::ErrorKind::AddrInUse; 3]);
            drop(Socket::connect(&path).unwrap());
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn one_that_dies_before_it_is_accepted_holds_up_nobody() {
        let name = format!("e810-early-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = Listener::bind(&path).unwrap();
        let address = Address::at_path(&path).unwrap();
        for _ in 0..3 {
            // SAFETY: the child makes system calls only, with what was made before; it is waited for.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    mem::forget(Seqpacket::connect(&address, SOON));
                    libc::_exit(0);
                }
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
        }
        let program = Socket::connect(&path).unwrap();
        program.send(vec![1].into()).unwrap();
        // The dead are taken first, where the kernel knows them still; none of them is an error.
        let lives = (0..4).find_map(|_| {
            let accepted = listener.accept().unwrap();
            let received = accepted.receive(SOON);
            assert_ne!(
                received.as_ref().map(Option::is_none),
                Ok(true),
                "it is gone"
            );
            received.ok().flatten()
        });
        assert_eq!(bytes(lives), [1]);
        drop(listener);
        let _ = fs::remove_file(path.with_extension("sock.lock"));
    }

    /// The number of a process that has gone is another's, and that one lives: it is gone all the
    /// same.
    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let name = format!("e810-again-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = Listener::bind(&path).unwrap();
        let address = Address::at_path(&path).unwrap();
        // SAFETY: the children make system calls only, with what was made before.
        let (pid, holder) = unsafe {
            let mut pipe = [0; 2];
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let pid = libc::fork();
            if pid == 0 {
                mem::forget(Seqpacket::connect(&address, SOON));
                let child = libc::fork();
                if child == 0 {
                    libc::pause();
                }
                libc::write(pipe[1], (&raw const child).cast(), size_of_val(&child));
                libc::_exit(0);
            }
            let mut holder: libc::pid_t = 0;
            libc::read(pipe[0], (&raw mut holder).cast(), size_of_val(&holder));
            libc::waitpid(pid, std::ptr::null_mut(), 0);
            libc::close(pipe[0]);
            libc::close(pipe[1]);
            (pid, holder)
        };
        let again = process_with(pid);
        if again.is_none() {
            println!("NOT RUN: this process may not choose the number of a child");
        }
        // A kernel that does not know the dead any more passes it over.
        let next = Socket::connect(&path).unwrap();
        let first = listener.accept().unwrap();
        let ended = match first.peer().unwrap().pid.cast_signed() == pid {
            true => first.receive(SOON).map(drop),
            false => Err(Ended),
        };
        drop(next);
        for child in again.into_iter().chain([holder]) {
            // SAFETY: what this test has started.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
        }
        assert_eq!(ended, Err(Ended));
        drop(listener);
        let _ = fs::remove_file(path.with_extension("sock.lock"));
    }

    /// A child with this number, which waits until it is killed; `None` without the right to.
    fn process_with(pid: libc::pid_t) -> Option<libc::pid_t> {
        #[repr(C)]
        #[derive(Default)]
        struct Clone {
            flags: u64,
            pidfd: u64,
            child_tid: u64,
            parent_tid: u64,
            exit_signal: u64,
            stack: u64,
            stack_size: u64,
            tls: u64,
            set_tid: u64,
            set_tid_size: u64,
            cgroup: u64,
        }
        let clone = Clone {
            exit_signal: libc::SIGCHLD as u64,
            set_tid: (&raw const pid).addr() as u64,
            set_tid_size: 1,
            ..Clone::default()
        };
        // SAFETY: a child with memory of its own, as of `fork`, which makes system calls only.
        unsafe {
            let made = libc::syscall(libc::SYS_clone3, &raw const clone, size_of_val(&clone));
            if made == 0 {
                libc::pause();
                libc::_exit(0);
            }
            (made > 0).then_some(made as libc::pid_t)
        }
    }

    #[test]
    fn one_owner_listens_at_a_path_and_a_socket_of_the_dead_is_replaced() {
        let folder = std::env::temp_dir().join(format!("e810-listen-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("e810.sock");
        assert!(Socket::connect(&path).is_err(), "nobody is there");
        let listener = Listener::bind(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, OWNER_ALONE);
        let program = Socket::connect(&path).unwrap();
        let accepted = listener.accept().unwrap();
        assert_eq!(accepted.peer().unwrap().pid, std::process::id());
        program.send(vec![1].into()).unwrap();
        assert_eq!(bytes(accepted.receive(SOON).unwrap()), [1]);
        let second = Listener::bind(&path).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        let own = format!("process {} (", std::process::id());
        let said = second.to_string();
        assert!(
            said.contains(&own) && said.contains(path.to_str().unwrap()),
            "{said}"
        );
        // Also of one whose socket somebody has removed.
        fs::remove_file(&path).unwrap();
        let said = Listener::bind(&path).unwrap_err().to_string();
        assert!(said.contains(&own), "{said}");
        drop(listener);
        assert!(!path.exists());
        stale(&path);
        drop(Listener::bind(&path).unwrap());
        // What is no socket stays.
        fs::write(&path, "somebody's").unwrap();
        let second = Listener::bind(&path).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read(&path).unwrap(), b"somebody's");
        let said = second.to_string();
        assert!(said.contains("is a file and no socket"), "{said}");
        // Nothing is left beside it, nor beside a folder.
        for (name, is) in [("passwd", "a file"), ("group", "a folder")] {
            let path = folder.join(name);
            match is {
                "a file" => fs::write(&path, "").unwrap(),
                _ => fs::create_dir(&path).unwrap(),
            }
            let said = Listener::bind(&path).unwrap_err().to_string();
            assert!(said.contains(is) && said.contains(name), "{said}");
            assert!(!lock_of(&path).exists());
        }
        let long = folder.join("a".repeat(108));
        assert_eq!(
            Listener::bind(&long).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
