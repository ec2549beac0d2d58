//! Where an owner waits for programs: a socket at a path, and a lock beside it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use e810_shared::seqpacket::{Acceptor, Address, Peer};

use crate::socket::{Socket, check, is_of_the_dead, named};

/// Permissions of a new socket.
const OWNER_ALONE: u32 = 0o600;

/// A socket's file that this process has made. Nothing else is removed in its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
}

impl Made {
    fn at(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: file_at(path)?,
        })
    }

    /// Removes the file, unless something else is there by now.
    pub fn remove(&self) {
        if file_at(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file_at(path: &Path) -> io::Result<(u64, u64)> {
    let there = fs::symlink_metadata(path)?;
    Ok((there.dev(), there.ino()))
}

/// Where an owner waits for programs.
#[derive(Debug)]
pub struct Listener {
    socket: Acceptor,
    path: PathBuf,
    /// Its file, and the lock, which is locked as long as this lives, so that two owners that start at
    /// a time do not both take the place of one that is dead. `None`: somebody else keeps the socket.
    made: Option<(Made, File)>,
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
            made: Some((Made::at(path)?, lock)),
        })
    }

    /// On a socket that listens at `path`, and that somebody else keeps there.
    pub(crate) fn handed_over(socket: OwnedFd, path: PathBuf) -> Self {
        Self {
            socket: socket.into(),
            path,
            made: None,
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The socket's file, if this process has made it.
    #[must_use]
    pub fn made(&self) -> Option<&Made> {
        self.made.as_ref().map(|(made, _)| made)
    }

    /// The next program; waits for one.
    ///
    /// # Errors
    /// The system's.
    pub fn accept(&self) -> io::Result<Socket> {
        loop {
            match Socket::of_peer(self.socket.accept()?) {
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
        if let Some(made) = self.made() {
            made.remove();
        }
    }
}

/// The file beside the socket.
pub(crate) fn lock_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Locks the file beside the socket, and writes this process's number there.
fn lock_beside(path: &Path) -> io::Result<File> {
    // Says what is wrong with the path of the socket first.
    Address::at_path(path)?;
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(OWNER_ALONE);
    // A pipe there holds up nobody.
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let mut file = options.open(lock_of(path))?;
    if !is_lock(&mut file)? {
        return Err(no_lock(path));
    }
    // SAFETY: no memory is touched.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(held(path)),
        locked => locked?,
    }
    // For a message only; the lock does without it, as on a full disk.
    let _ = file.set_len(0);
    let _ = file.seek(SeekFrom::Start(0));
    let _ = writeln!(file, "{}", std::process::id());
    Ok(file)
}

/// Whether this is a file that an owner has made: it is empty, or has a process's number.
fn is_lock(file: &mut File) -> io::Result<bool> {
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    let mut text = String::new();
    // Longer than any number.
    let read = Read::by_ref(file).take(32).read_to_string(&mut text);
    Ok(read.is_ok() && (text.is_empty() || text.trim().parse::<u32>().is_ok()))
}

/// Something that is no lock, and perhaps somebody's, is in the place of one.
fn no_lock(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::AddrInUse,
        format!(
            "{} exists and is not the lock of a server: name another place (--at PATH)",
            lock_of(path).display()
        ),
    )
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

#[cfg(test)]
mod tests {
    use std::mem;
    use std::os::fd::FromRawFd as _;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::link::Link as _;

    const SOON: Duration = Duration::from_secs(10);

    /// As a process leaves its socket that is killed.
    fn stale(path: &Path) {
        let killed = Listener::bind(path).unwrap();
        let (socket, lock) = (
            killed.socket.as_raw_fd(),
            killed.made.as_ref().unwrap().1.as_raw_fd(),
        );
        mem::forget(killed);
        for fd in [socket, lock] {
            // SAFETY: nobody else has it any more.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        assert!(path.exists());
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
        assert_eq!(accepted.receive(SOON).unwrap().unwrap().bytes, [1]);
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

    /// systemd unlinks what is in the place of its socket, whoever listens there.
    #[test]
    fn a_socket_that_is_another_ones_by_now_stays() {
        let folder = std::env::temp_dir().join(format!("e810-stolen-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("e810.sock");
        let first = Listener::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let of_unit = Acceptor::bind(&Address::at_path(&path).unwrap()).unwrap();
        of_unit.listen().unwrap();
        drop(first);
        let there = Socket::connect(&path).map(drop);
        fs::remove_dir_all(&folder).unwrap();
        assert!(
            there.is_ok(),
            "the other one listens, and nobody finds it: {there:?}"
        );
    }

    /// `e810 serve --at ./Cargo`.
    #[test]
    fn a_file_that_is_no_lock_keeps_what_is_in_it() {
        let folder = std::env::temp_dir().join(format!("e810-lockfile-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("Cargo");
        fs::write(lock_of(&path), "somebody's\n").unwrap();
        let bound = Listener::bind(&path).map(drop);
        let text = fs::read_to_string(lock_of(&path)).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(text, "somebody's\n", "{bound:?}");
    }

    /// Anybody who may make files there.
    #[test]
    fn a_pipe_in_the_place_of_the_lock_holds_up_nobody() {
        let folder = std::env::temp_dir().join(format!("e810-fifo-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("e810.sock");
        let pipe = lock_of(&path);
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: a string that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o666) }, 0);
        let (tell, told) = std::sync::mpsc::channel();
        let bind = path.clone();
        thread::spawn(move || tell.send(Listener::bind(&bind).map(drop)));
        let bound = told.recv_timeout(Duration::from_secs(60));
        // Lets it go on.
        let reader = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&pipe);
        drop(reader);
        fs::remove_dir_all(&folder).unwrap();
        assert!(bound.is_ok(), "the server waits for whoever reads the pipe");
    }
}
