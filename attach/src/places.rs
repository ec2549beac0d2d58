//! Where an owner's socket is unless somebody says, and how a program gets there.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use e810_backends::host::user_folder::runtime_folder;

use crate::link::{Ended, Link as _};
use crate::messages::{Hello, encode};
use crate::socket::{Listener, Socket};

/// The socket of the machine's server. Only root makes its folder.
pub const SYSTEM: &str = "/run/e810/e810.sock";
/// The name of a user's own server's socket, in `$XDG_RUNTIME_DIR`.
pub const OF_USER: &str = "e810.sock";
/// The unit of the machine's server (`packaging/systemd`).
pub const UNIT: &str = "e810.service";
/// How often one who waits looks for a server.
const AGAIN: Duration = Duration::from_millis(50);

/// The usual places of the socket, the machine's first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places(Vec<PathBuf>);

/// Nobody serves a function where a program looked.
#[derive(Debug, thiserror::Error)]
pub enum NotServed {
    /// Nobody listens there, or has waited for this process.
    #[error(
        "nobody serves a function at {at}: start a server ({how}), or wait for one (`--wait SECONDS`, or E810_VERBS=at:PATH@wait=SECONDS)",
        at = joined(places), how = start(places)
    )]
    Nobody {
        places: Vec<PathBuf>,
        source: io::Error,
    },
    /// The system lets this process not connect.
    #[error(
        "this process may not use the server at {}: it needs write access to that socket (`chgrp`, `chmod`), and to get there",
        path.display()
    )]
    Forbidden { path: PathBuf, source: io::Error },
}

impl Default for Places {
    /// Those of this process: no folder that others than root and its own user may change.
    fn default() -> Self {
        Self::new(SYSTEM.into(), runtime_folder().as_deref())
    }
}

impl Places {
    /// The machine's socket, and one in the folder of a user, if there is one.
    #[must_use]
    pub fn new(system: PathBuf, of_user: Option<&Path>) -> Self {
        let own = of_user.map(|folder| folder.join(OF_USER));
        Self(std::iter::once(system).chain(own).collect())
    }

    /// Just this one, because somebody says so.
    #[must_use]
    pub fn only(path: PathBuf) -> Self {
        Self(vec![path])
    }

    /// Listens at the first of them where this process may. The folder of the machine's socket is
    /// made, if that is possible.
    ///
    /// # Errors
    /// Somebody listens there ([`io::ErrorKind::AddrInUse`]); the error about the last place.
    pub fn listen(&self) -> io::Result<Listener> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for path in &self.0 {
            if let Some(folder) = path.parent()
                && self.0.len() > 1
            {
                // If it is not made, the next step says what is wrong.
                let _ = std::fs::create_dir(folder);
            }
            match Listener::bind(path) {
                Err(error) if is_elsewhere(&error) => {
                    last = io::Error::new(error.kind(), format!("{}: {error}", path.display()));
                }
                bound => return bound,
            }
        }
        Err(last)
    }

    /// Finds the first place where somebody listens, for `wait` at most. This does not make the
    /// process a program of it.
    ///
    /// # Errors
    /// [`NotServed`].
    pub fn find(&self, wait: Duration) -> Result<&Path, NotServed> {
        let (path, _) = self.reach(wait)?;
        Ok(path)
    }

    /// Connects as a program.
    ///
    /// # Errors
    /// [`NotServed`].
    pub fn connect(&self, wait: Duration) -> Result<Socket, NotServed> {
        let (path, socket) = self.reach(wait)?;
        let said = socket.send(encode(&Hello::Attach).into());
        said.map_err(|Ended| NotServed::Nobody {
            places: vec![path.to_owned()],
            source: io::ErrorKind::ConnectionReset.into(),
        })?;
        Ok(socket)
    }

    /// Connects, and does not say yet what for.
    ///
    /// # Errors
    /// [`NotServed`].
    pub fn reach(&self, wait: Duration) -> Result<(&Path, Socket), NotServed> {
        let began = Instant::now();
        loop {
            let mut last = io::Error::from(io::ErrorKind::NotFound);
            for path in &self.0 {
                match Socket::connect(path) {
                    Ok(socket) => return Ok((path, socket)),
                    Err(source) if is_nobody(&source) => last = source,
                    Err(source) => {
                        let path = path.clone();
                        return Err(NotServed::Forbidden { path, source });
                    }
                }
            }
            let left = wait.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(NotServed::Nobody {
                    places: self.0.clone(),
                    source: last,
                });
            }
            thread::sleep(left.min(AGAIN));
        }
    }
}

fn joined(places: &[PathBuf]) -> String {
    let names = places.iter().map(|path| path.display().to_string());
    names.collect::<Vec<_>>().join(" or ")
}

/// How a server at one of these places is started.
#[must_use]
pub fn start(places: &[PathBuf]) -> String {
    match places {
        [only] if only != Path::new(SYSTEM) => format!(
            "`e810 serve --at {}`, or `systemctl start {UNIT}` for one at {SYSTEM}",
            only.display()
        ),
        _ => format!("`systemctl start {UNIT}` or `e810 serve`"),
    }
}

/// Nobody is there yet: no socket, or one that nobody listens at, or too many who come at once.
fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock
    )
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
        let places = Places::new(system.clone(), Some(&folder));
        let nobody = places.find(Duration::ZERO).unwrap_err().to_string();
        for part in [system.to_str().unwrap(), "systemctl start", "e810 serve"] {
            assert!(nobody.contains(part), "{nobody}");
        }
        // The folder of the machine's socket is made.
        let first = places.listen().unwrap();
        assert_eq!(first.path(), system);
        assert_eq!(places.find(Duration::ZERO).unwrap(), system);
        let second = places.listen().unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        // Where it cannot be made, the user's is taken.
        let nowhere = folder.join("no").join("such").join("e810.sock");
        let places = Places::new(nowhere, Some(&folder));
        let own = places.listen().unwrap();
        assert_eq!(own.path(), folder.join(OF_USER));
        assert_eq!(places.find(Duration::ZERO).unwrap(), own.path());
        drop(own);
        let none = Places::only(folder.join("no").join("e810.sock"));
        let error = none.listen().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!folder.join("no").exists(), "a named folder is not made");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn who_waits_finds_a_server_that_comes_later() {
        let folder = std::env::temp_dir().join(format!("e810-waits-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("e810.sock");
        let places = Places::only(path.clone());
        thread::scope(|scope| {
            let waits = scope.spawn(|| places.connect(Duration::from_secs(60)).map(drop));
            let looks = scope.spawn(|| places.find(Duration::from_secs(60)).map(drop));
            // It has looked in vain, most likely.
            thread::sleep(3 * AGAIN);
            let listener = Listener::bind(&path).unwrap();
            waits.join().unwrap().unwrap();
            looks.join().unwrap().unwrap();
            drop(listener);
        });
        fs::remove_dir_all(&folder).unwrap();
    }
}
