//! What the service manager is told (sd_notify(3)): datagrams, if it asks for any.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use vmm_sys_util::sock_ctrl_msg::ScmSocket as _;

/// How long a manager that reads nothing may hold this process up.
const LIMIT: Duration = Duration::from_secs(5);

/// Whether there is a service manager that wants to be told.
pub(super) fn is_wanted() -> bool {
    env::var_os("NOTIFY_SOCKET").is_some()
}

/// Tells the service manager `what`.
pub(super) fn tell(what: &str) {
    send(what, None);
}

/// Tells the service manager `what`, and gives it a file.
pub(super) fn give(what: &str, file: BorrowedFd<'_>) {
    send(what, Some(file));
}

fn send(what: &str, file: Option<BorrowedFd<'_>>) {
    if let Some(to) = env::var_os("NOTIFY_SOCKET")
        && let Err(error) = try_send(&to, what, file)
    {
        log::warn!("NOTIFY_SOCKET {}: {error}", to.display());
    }
}

fn try_send(to: &OsStr, what: &str, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    // An @ stands for the zero that begins a name which is no file's.
    let address = match to.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(to)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_write_timeout(Some(LIMIT))?;
    let sent = match file {
        Some(file) => socket.send_with_fd(what.as_bytes(), file.as_raw_fd()),
        None => return socket.send(what.as_bytes()).map(drop),
    };
    sent.map(drop)
        .map_err(|error| io::Error::from_raw_os_error(error.errno()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use super::*;

    /// Where a test's manager listens: a name that is no file's, and nobody else's.
    fn manager(test: &str) -> (UnixDatagram, String) {
        let name = format!("e810-test-{test}-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        manager
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        (manager, format!("@{name}"))
    }

    #[test]
    fn a_file_comes_with_its_message() {
        let (manager, to) = manager("notify");
        let (mut ours, theirs) = io::pipe().unwrap();
        let what = "FDSTORE=1\nFDNAME=a";
        try_send(OsStr::new(&to), what, Some(theirs.as_fd())).unwrap();
        try_send(OsStr::new(&to), "READY=1", None).unwrap();
        drop(theirs);
        let receive = || {
            let mut bytes = [0; 64];
            let (length, file) = manager.recv_with_fd(&mut bytes).unwrap();
            (String::from_utf8_lossy(&bytes[..length]).into_owned(), file)
        };
        let (said, file) = receive();
        assert_eq!(said, what);
        file.unwrap().write_all(b"kept").unwrap();
        let mut got = String::new();
        ours.read_to_string(&mut got).unwrap();
        assert_eq!(got, "kept");
        let (said, file) = receive();
        assert_eq!(said, "READY=1");
        assert!(file.is_none());
        drop(manager);
        try_send(OsStr::new(&to), "READY=1", None).unwrap_err();
    }
}
