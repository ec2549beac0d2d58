//! What systemd hands over to a process that it starts: the socket that it has made for it, and what
//! an earlier process had it keep (sd_listen_fds_with_names(3)).

use std::env;
use std::ffi::{OsStr, c_int};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::listener::Listener;

/// The first descriptor that is handed over.
const FIRST: RawFd = 3;

/// The descriptors that were handed over, each with its name (empty if they have none); none if this
/// process was started without any, or has taken them already. Call it before anything else is
/// opened.
///
/// # Errors
/// There are fewer than the environment says, or the names are not theirs.
pub fn handed_over() -> io::Result<Vec<(String, OwnedFd)>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name| env::var(name).ok()?.parse::<u32>().ok();
    let is_ours = number("LISTEN_PID") == Some(std::process::id());
    let count = number("LISTEN_FDS").filter(|count| is_ours && *count > 0);
    let Some(count) = count.filter(|_| !TAKEN.swap(true, Ordering::Relaxed)) else {
        return Ok(Vec::new());
    };
    let numbers = (FIRST..).take(usize::try_from(count).unwrap_or(usize::MAX));
    let taken: Vec<OwnedFd> = numbers.map(taken).collect::<io::Result<_>>()?;
    let names = match env::var("LISTEN_FDNAMES") {
        Ok(names) => names.split(':').map(str::to_owned).collect(),
        Err(_) => vec![String::new(); taken.len()],
    };
    if names.len() != taken.len() {
        return Err(wrong(
            "LISTEN_FDNAMES has not as many names as LISTEN_FDS says",
        ));
    }
    Ok(names.into_iter().zip(taken).collect())
}

fn taken(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no memory is touched, and the descriptor is not changed unless it is open.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: open, and handed over to this process, which takes it once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The listener on a socket that was handed over.
///
/// # Errors
/// It is no listening Unix socket that keeps messages whole (`ListenSequentialPacket=`).
pub fn listener(socket: OwnedFd) -> io::Result<Listener> {
    for (option, wanted) in [
        (libc::SO_DOMAIN, libc::AF_UNIX),
        (libc::SO_TYPE, libc::SOCK_SEQPACKET),
        (libc::SO_ACCEPTCONN, 1),
    ] {
        if asked(&socket, option)? != wanted {
            return Err(wrong(
                "no listening Unix socket of packets (ListenSequentialPacket=) is handed over",
            ));
        }
    }
    let path = path(&socket)?;
    Ok(Listener::handed_over(socket, path))
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn asked(socket: &OwnedFd, option: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: room for a number.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    match done {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Where it listens.
fn path(socket: &OwnedFd) -> io::Result<PathBuf> {
    // SAFETY: numbers.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: room for an address of that length.
    let done = unsafe {
        libc::getsockname(
            socket.as_raw_fd(),
            (&raw mut address).cast(),
            &raw mut length,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let bytes = address.sun_path.map(i8::cast_unsigned);
    let end = bytes.iter().position(|byte| *byte == 0);
    let path = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    Ok(PathBuf::from(OsStr::from_bytes(path)))
}
