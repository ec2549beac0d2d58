//! The socket that systemd has made, if it started this process for one (sd_listen_fds(3)).

use std::env;
use std::ffi::{OsStr, c_int};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::socket::Listener;

/// The first descriptor that is handed over.
const FIRST: RawFd = 3;

/// The listener that was handed over; `None` if this process was started without one, or has taken
/// it already.
///
/// # Errors
/// What was handed over is not one listening Unix socket that keeps messages whole
/// (`ListenSequentialPacket=`).
pub fn listener() -> io::Result<Option<Listener>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name| env::var(name).ok()?.parse::<u32>().ok();
    let is_ours = number("LISTEN_PID") == Some(std::process::id());
    let count = number("LISTEN_FDS").filter(|count| is_ours && *count > 0);
    let Some(count) = count.filter(|_| !TAKEN.swap(true, Ordering::Relaxed)) else {
        return Ok(None);
    };
    if count != 1 {
        return Err(wrong("one socket is served, and more are handed over"));
    }
    // SAFETY: no memory is touched, and the descriptor is not changed unless it is open.
    if unsafe { libc::fcntl(FIRST, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: open, and handed over to this process, which takes it once.
    let socket = unsafe { OwnedFd::from_raw_fd(FIRST) };
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
    Ok(Some(Listener::handed_over(socket, path)))
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
