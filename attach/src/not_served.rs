//! Why a program has found no server, and what to do.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::listener::kind_of;
use crate::places::{Places, SYSTEM, UNIT};

/// Nobody serves a function where a program looked.
#[derive(Debug, thiserror::Error)]
pub enum NotServed {
    /// Nobody listens there, or has waited for this process.
    #[error("{}", nobody(places, *waited, source))]
    Nobody {
        places: Places,
        waited: Duration,
        source: io::Error,
    },
    /// A server is there, and waits for its programs to end.
    #[error(
        "the server at {} is ending, and takes no new programs: wait for the next one{}",
        path.display(), how_to_wait.map(|how| format!(" ({how})")).unwrap_or_default()
    )]
    Ending {
        path: PathBuf,
        how_to_wait: Option<&'static str>,
    },
    /// The system lets this process not connect.
    #[error(
        "this user may not use the server at {}{}: ask its owner for write access to that socket, and search access to its folders (`chgrp`, `chmod`); or use another server (`--at PATH`), or a simulated function (`--device sim`)",
        path.display(), owner(path)
    )]
    Forbidden { path: PathBuf, source: io::Error },
    /// What is there is no socket.
    #[error(
        "{} is {} and no socket: name the one that `e810 serve` prints",
        path.display(), kind_of(path)
    )]
    NoSocket { path: PathBuf },
    /// What is there is a socket of another kind.
    #[error(
        "the socket at {} is not of `e810 serve`: it does not keep messages whole (SOCK_SEQPACKET; in a unit `ListenSequentialPacket=`): name another one",
        path.display()
    )]
    OtherKind { path: PathBuf },
    /// The server let this process connect, and then closed the connection.
    #[error(
        "the server at {} has closed the connection before it said anything: its log says why",
        path.display()
    )]
    Closed { path: PathBuf },
    /// The system cannot connect.
    #[error("cannot connect to the server at {}", path.display())]
    System { path: PathBuf, source: io::Error },
}

impl NotServed {
    /// Why `path` could not be connected to; `Err` with the error if nobody is there yet: no socket,
    /// or one that nobody listens at, or too many who come at once.
    pub(crate) fn of(path: &Path, source: io::Error) -> Result<Self, io::Error> {
        let path = path.to_owned();
        match source.kind() {
            // A file refuses connections, too.
            io::ErrorKind::ConnectionRefused if !is_socket(&path) => Ok(Self::NoSocket { path }),
            io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::WouldBlock => Err(source),
            io::ErrorKind::PermissionDenied => Ok(Self::Forbidden { path, source }),
            _ if source.raw_os_error() == Some(libc::EPROTOTYPE) => Ok(Self::OtherKind { path }),
            _ => Ok(Self::System { path, source }),
        }
    }
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    // Where it cannot be looked at, nobody is there.
    fs::metadata(path).map_or(true, |there| there.file_type().is_socket())
}

fn nobody(places: &Places, waited: Duration, source: &io::Error) -> String {
    let names = places.paths().iter().map(|path| path.display().to_string());
    let names: Vec<_> = names.collect();
    let mut text = format!("nobody serves a function at {}", names.join(" or "));
    // Writing to a `String` does not fail.
    if let Some(why) = places.lacks() {
        let _ = write!(text, " ({why}, so there is no place of this user)");
    }
    if !waited.is_zero() {
        let _ = write!(text, ", after {} s", waited.as_secs_f64());
    }
    let _ = write!(text, ": start a server ({})", start(places.paths()));
    if let Some(how) = places.how_to_wait().filter(|_| waited.is_zero()) {
        let _ = write!(text, ", or wait for one ({how})");
    }
    // The unit's socket is there as long as that unit is active, whatever becomes of the server.
    let is_system = places.paths().iter().any(|path| path == Path::new(SYSTEM));
    if is_system && source.kind() == io::ErrorKind::ConnectionRefused {
        let _ = write!(text, "; `systemctl status {UNIT}` says why it has ended");
    }
    text
}

/// Whose the socket is, as far as this process may look.
fn owner(path: &Path) -> String {
    fs::metadata(path).map_or_else(
        |_| String::new(),
        |there| {
            let mode = there.mode() & 0o777;
            let (user, group) = (there.uid(), there.gid());
            format!(" (of user {user} and group {group}, mode {mode:04o})")
        },
    )
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
