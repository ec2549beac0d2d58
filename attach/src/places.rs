//! Where an owner's socket is unless somebody says, and how a program gets there.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use e810_backends::host::user_folder::runtime_folder_or_why;

use crate::asker::programs;
use crate::link::{Ended, Link as _};
use crate::listener::Listener;
use crate::messages::{Hello, encode};
pub use crate::not_served::{NotServed, start};
use crate::program::Attached;
use crate::socket::Socket;

/// The socket of the machine's server. Only root makes its folder.
pub const SYSTEM: &str = "/run/e810/e810.sock";
/// The name of a user's own server's socket, in `$XDG_RUNTIME_DIR`.
pub const OF_USER: &str = "e810.sock";
/// The unit of the machine's server (`packaging/systemd`).
pub const UNIT: &str = "e810.service";
/// Functions of a server at most: those of a card.
pub const FUNCTIONS: usize = 8;
/// Permissions of its folder: only root replaces the socket, whatever root's umask is.
const FOLDER: u32 = 0o755;
/// How often one who waits looks for a server.
const AGAIN: Duration = Duration::from_millis(50);

/// Where a server of several functions listens for programs of the one at `index`, if it listens at
/// `path` for those of the first.
#[must_use]
pub fn of_function(path: &Path, index: usize) -> PathBuf {
    match index {
        0 => path.to_owned(),
        _ => {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{index}"));
            name.into()
        }
    }
}

/// Beside `path`, where somebody listens: the sockets of a server's further functions.
#[must_use]
pub fn further(path: &Path) -> Vec<PathBuf> {
    let beside = (1..FUNCTIONS).map(|index| of_function(path, index));
    beside
        .filter(|path| Socket::connect(path).is_ok())
        .collect()
}

/// Where a server is looked for, or listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    paths: Vec<PathBuf>,
    /// Nobody has named them: the machine's socket first, and perhaps one of the user's.
    are_usual: bool,
    /// Why none of the usual ones is the user's.
    lacks: Option<String>,
    /// How whoever looks there can wait for a server.
    how_to_wait: Option<&'static str>,
}

impl Default for Places {
    /// Those of this process: no folder that others than root and its own user may change.
    fn default() -> Self {
        Self::new(SYSTEM.into(), runtime_folder_or_why())
    }
}

impl Places {
    /// The machine's socket, and one in the folder of a user; or why there is no such folder.
    #[must_use]
    pub fn new(system: PathBuf, of_user: Result<PathBuf, String>) -> Self {
        let (own, lacks) = match of_user {
            Ok(folder) => (Some(folder.join(OF_USER)), None),
            Err(why) => (None, Some(why)),
        };
        Self {
            paths: std::iter::once(system).chain(own).collect(),
            are_usual: true,
            lacks,
            how_to_wait: None,
        }
    }

    /// Just this one, because somebody says so.
    #[must_use]
    pub fn only(path: PathBuf) -> Self {
        Self {
            paths: vec![path],
            are_usual: false,
            lacks: None,
            how_to_wait: None,
        }
    }

    /// Who looks there can wait for a server: errors say how.
    #[must_use]
    pub fn with_how_to_wait(self, how: &'static str) -> Self {
        Self {
            how_to_wait: Some(how),
            ..self
        }
    }

    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Whether nobody has named them.
    #[must_use]
    pub const fn are_usual(&self) -> bool {
        self.are_usual
    }

    pub(crate) fn lacks(&self) -> Option<&str> {
        self.lacks.as_deref()
    }

    pub(crate) const fn how_to_wait(&self) -> Option<&'static str> {
        self.how_to_wait
    }

    /// Listens at the first of them where this process may. The folder of the machine's socket is
    /// made, if that is possible.
    ///
    /// # Errors
    /// Somebody listens there ([`io::ErrorKind::AddrInUse`]); what is wrong with each place, in
    /// words that say what to do, and the kind of the last error.
    pub fn listen(&self) -> io::Result<Listener> {
        if let Some(folder) = self.paths.first().and_then(|path| path.parent())
            && self.are_usual
        {
            // If it is not made, the next step says what is wrong.
            let _ = std::fs::DirBuilder::new().mode(FOLDER).create(folder);
        }
        let (mut kind, mut whys) = (io::ErrorKind::NotFound, Vec::new());
        for path in &self.paths {
            match Listener::bind(path) {
                Err(error) if is_elsewhere(&error) => {
                    kind = error.kind();
                    whys.push(why_not(path, &error));
                }
                Err(error) if error.raw_os_error().is_some() => {
                    let why = format!("a socket at {}: {error}", path.display());
                    return Err(io::Error::new(error.kind(), why));
                }
                bound => return bound,
            }
        }
        whys.extend(self.lacks.clone());
        let remedy = match self.are_usual {
            true => {
                "run the server as root, set XDG_RUNTIME_DIR to a folder of this user alone, or name a place (--at PATH)"
            }
            false => "name a place where this user may make a socket (--at PATH)",
        };
        let why = format!("no place for a socket: {}: {remedy}", whys.join("; "));
        Err(io::Error::new(kind, why))
    }

    /// Finds the first place where a server takes programs, for `wait` at most. This does not make
    /// the process a program of it.
    ///
    /// # Errors
    /// [`NotServed`].
    pub fn find(&self, wait: Duration) -> Result<&Path, NotServed> {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let (path, socket) = self.within(left, wait)?;
            // One that does not answer tells programs itself what is wrong.
            if !programs(&socket).is_ok_and(|census| census.is_closing) {
                return Ok(path);
            }
            if Instant::now() >= until {
                return Err(NotServed::Ending {
                    path: path.to_owned(),
                    how_to_wait: self.how_to_wait.filter(|_| wait.is_zero()),
                });
            }
            thread::sleep(AGAIN);
        }
    }

    /// Attaches this process to the first server that takes programs, for which it waits.
    ///
    /// # Errors
    /// [`NotServed`]; what [`Attached::over`] says.
    pub fn attach(&self, wait: Duration) -> anyhow::Result<Attached> {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let socket = self.connect(left, wait)?;
            match Attached::over(Arc::new(socket)) {
                // It is ending, or has ended just now.
                Err(refused) if refused.is_end_of_server() && Instant::now() < until => {
                    thread::sleep(AGAIN);
                }
                over => return Ok(over?),
            }
        }
    }

    /// Connects as a program. `wait` is what of `waits` is left.
    fn connect(&self, wait: Duration, waits: Duration) -> Result<Socket, NotServed> {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let (path, socket) = self.within(left, waits)?;
            match socket.send(encode(&Hello::Attach).into()) {
                Ok(()) => return Ok(socket),
                Err(Ended) if Instant::now() < until => thread::sleep(AGAIN),
                Err(Ended) => {
                    let path = path.to_owned();
                    return Err(NotServed::Closed { path });
                }
            }
        }
    }

    /// Connects, and does not say yet what for.
    ///
    /// # Errors
    /// [`NotServed`].
    pub fn reach(&self, wait: Duration) -> Result<(&Path, Socket), NotServed> {
        self.within(wait, wait)
    }

    /// Connects within `wait`, which is what of `waits` is left.
    fn within(&self, wait: Duration, waits: Duration) -> Result<(&Path, Socket), NotServed> {
        let began = Instant::now();
        loop {
            let mut nobody = io::Error::from(io::ErrorKind::NotFound);
            let mut first_wrong = None;
            for path in &self.paths {
                match Socket::connect(path) {
                    Ok(socket) => return Ok((path, socket)),
                    // A server of the user's own may be in the next place.
                    Err(source) => match NotServed::of(path, source) {
                        Err(source) => nobody = source,
                        Ok(wrong) => first_wrong = first_wrong.or(Some(wrong)),
                    },
                }
            }
            let left = wait.saturating_sub(began.elapsed());
            match first_wrong {
                // In a place that somebody names nothing else will come.
                Some(wrong) if left.is_zero() || !self.are_usual => return Err(wrong),
                None if left.is_zero() => {
                    return Err(NotServed::Nobody {
                        places: self.clone(),
                        waited: waits,
                        source: nobody,
                    });
                }
                _ => thread::sleep(left.min(AGAIN)),
            }
        }
    }
}

/// Why a server cannot listen there.
fn why_not(path: &Path, error: &io::Error) -> String {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if error.kind() == io::ErrorKind::NotFound => {
            format!(
                "{}: there is no folder {}",
                path.display(),
                folder.display()
            )
        }
        _ => format!("{}: {error}", path.display()),
    }
}

/// Another place may do.
fn is_elsewhere(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_server_listens_where_it_may_and_is_found_there() {
        let folder = std::env::temp_dir().join(format!("e810-places-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let system = folder.join("run").join("e810.sock");
        let places = Places::new(system.clone(), Ok(folder.clone()));
        let nobody = places.find(Duration::ZERO).unwrap_err().to_string();
        for part in [system.to_str().unwrap(), "systemctl start", "e810 serve"] {
            assert!(nobody.contains(part), "{nobody}");
        }
        // The folder of the machine's socket is made.
        let first = places.listen().unwrap();
        assert_eq!(first.path(), system);
        assert_eq!(places.reach(Duration::ZERO).unwrap().0, system);
        let second = places.listen().unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        // Where it cannot be made, the user's is taken.
        let nowhere = folder.join("no").join("such").join("e810.sock");
        let places = Places::new(nowhere, Ok(folder.clone()));
        let own = places.listen().unwrap();
        assert_eq!(own.path(), folder.join(OF_USER));
        assert_eq!(places.reach(Duration::ZERO).unwrap().0, own.path());
        drop(own);
        let none = Places::only(folder.join("no").join("e810.sock"));
        let error = none.listen().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!folder.join("no").exists(), "a named folder is not made");
        assert!(error.to_string().contains("there is no folder"), "{error}");
        // Without a folder of the user there is the machine's, whose folder is made all the same.
        fs::remove_dir_all(folder.join("run")).unwrap();
        let without = || Err("XDG_RUNTIME_DIR is not set".to_owned());
        let only = Places::new(system.clone(), without());
        let nobody = only.find(Duration::ZERO).unwrap_err().to_string();
        assert!(nobody.contains("XDG_RUNTIME_DIR is not set"), "{nobody}");
        assert_eq!(only.listen().unwrap().path(), system);
        let nowhere = Places::new(folder.join("no/such/e810.sock"), without());
        let error = nowhere.listen().unwrap_err().to_string();
        for part in ["no/such", "XDG_RUNTIME_DIR is not set", "--at PATH"] {
            assert!(error.contains(part), "{error}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn who_waits_finds_a_server_that_comes_later() {
        let folder = std::env::temp_dir().join(format!("e810-waits-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("e810.sock");
        let places = Places::only(path.clone());
        let wait = Duration::from_secs(60);
        thread::scope(|scope| {
            let waits = scope.spawn(|| places.connect(wait, wait).map(drop));
            let looks = scope.spawn(|| places.reach(wait).map(drop));
            // It has looked in vain, most likely.
            thread::sleep(3 * AGAIN);
            let listener = Listener::bind(&path).unwrap();
            waits.join().unwrap().unwrap();
            looks.join().unwrap().unwrap();
            drop(listener);
        });
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_no_server_is_named_and_the_next_place_is_tried() {
        let folder = std::env::temp_dir().join(format!("e810-no-server-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let said = |path: &Path| {
            let places = Places::only(path.to_owned());
            let found = places.find(Duration::from_secs(60));
            found.unwrap_err().to_string()
        };
        let file = folder.join("file");
        fs::write(&file, "").unwrap();
        let streams = folder.join("streams");
        let _streams = std::os::unix::net::UnixListener::bind(&streams).unwrap();
        for (path, part) in [
            (&folder, "is a folder and no socket"),
            (&file, "is a file and no socket"),
            (&streams, "SOCK_SEQPACKET"),
        ] {
            let said = said(path);
            assert!(said.contains(part), "{said}");
        }
        // A wrong thing in the machine's place does not hide the user's own server.
        let own = folder.join("own");
        fs::create_dir(&own).unwrap();
        let places = Places::new(file.clone(), Ok(own.clone()));
        let wrong = places.find(Duration::ZERO).unwrap_err();
        assert!(matches!(wrong, NotServed::NoSocket { .. }), "{wrong}");
        let listener = Listener::bind(&own.join(OF_USER)).unwrap();
        assert_eq!(places.reach(Duration::ZERO).unwrap().0, listener.path());
        drop(listener);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn how_to_wait_is_said_to_who_can_and_has_not() {
        let nobody = |how: Option<&'static str>, waited| {
            let places = Places::only("/nowhere/e810.sock".into());
            let places = match how {
                Some(how) => places.with_how_to_wait(how),
                None => places,
            };
            places.reach(waited).unwrap_err().to_string()
        };
        let short = Duration::from_millis(10);
        assert!(nobody(Some("--wait"), Duration::ZERO).ends_with("or wait for one (--wait)"));
        for (how, waited) in [
            (None, Duration::ZERO),
            (None, short),
            (Some("--wait"), short),
        ] {
            let said = nobody(how, waited);
            assert!(!said.contains("wait for one"), "{said}");
            assert_eq!(said.contains(", after 0.01 s"), !waited.is_zero(), "{said}");
        }
    }

    /// As in many containers.
    #[test]
    fn the_folder_of_the_machines_socket_is_the_servers_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = std::env::temp_dir().join(format!("e810-umask-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let system = folder.join("e810").join("e810.sock");
        let places = Places::new(system, Err(String::new()));
        // SAFETY: no memory is touched.
        let before = unsafe { libc::umask(0) };
        let listener = places.listen();
        // SAFETY: as above.
        unsafe { libc::umask(before) };
        let mode = fs::metadata(folder.join("e810"))
            .unwrap()
            .permissions()
            .mode();
        drop(listener);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            mode & 0o022,
            0,
            "anybody may put another socket in the place of the server's: {mode:o}"
        );
    }
}
