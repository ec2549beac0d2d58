//! What the service manager is told (sd_notify(3)): one datagram, if it asks for any.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells the service manager `what`.
pub(super) fn tell(what: &str) {
    if let Some(to) = env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&to, what)
    {
        log::warn!("NOTIFY_SOCKET {}: {error}", to.display());
    }
}

fn send(to: &OsStr, what: &str) -> io::Result<()> {
    // An @ stands for the zero that begins a name which is no file's.
    let address = match to.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(to)?,
    };
    UnixDatagram::unbound()?.send_to_addr(what.as_bytes(), &address)?;
    Ok(())
}
