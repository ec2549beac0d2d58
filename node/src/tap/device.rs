//! The interface's file: a TAP that was created, or an existing one that was attached.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use e810_backends::tap::open_tap;

/// Ethernet frames of the host's network stack, one for each call. No call waits.
pub(super) trait TapFrames: Send + 'static {
    /// The next frame that the stack sends.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is none.
    fn read(&self, into: &mut [u8]) -> io::Result<usize>;

    /// Gives the stack a frame that was received.
    ///
    /// # Errors
    /// The stack did not accept it.
    fn write(&self, frame: &[u8]) -> io::Result<usize>;

    /// Readable when there is a frame.
    fn fd(&self) -> RawFd;
}

impl TapFrames for File {
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        io::Read::read(&mut &*self, into)
    }

    fn write(&self, frame: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut &*self, frame)
    }

    fn fd(&self) -> RawFd {
        self.as_raw_fd()
    }
}

/// Why there is no interface. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The kernel does not support such interfaces.
    #[error(
        "TAP interface {name}: there is no /dev/net/tun; load the module (`modprobe tun`), or give the container that device"
    )]
    NoTun {
        /// Its name.
        name: String,
    },
    /// It needs privileges.
    #[error(
        "TAP interface {name}: not permitted; run as root, or give the program CAP_NET_ADMIN (`setcap cap_net_admin+ep`), which an existing interface needs too"
    )]
    NotPermitted {
        /// Its name.
        name: String,
    },
    /// Another program uses it.
    #[error(
        "TAP interface {name}: another program has that interface open; give another name, or end that program"
    )]
    Busy {
        /// Its name.
        name: String,
    },
    /// It is another kind of interface.
    #[error(
        "TAP interface {name}: an interface of that name is not a TAP with one queue (`ip -d link show dev {name}`); give another name"
    )]
    NoTap {
        /// Its name.
        name: String,
    },
    /// Anything else.
    #[error("TAP interface {name}: {source}")]
    Other {
        /// Its name.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl TapError {
    fn of(name: &str, source: io::Error) -> Self {
        let name = name.to_owned();
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Self::NoTun { name },
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { name },
            Some(libc::EBUSY) => Self::Busy { name },
            Some(libc::EINVAL) => Self::NoTap { name },
            _ => Self::Other { name, source },
        }
    }

    /// The error number of the system.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::NoTun { .. } => Some(libc::ENODEV),
            Self::NotPermitted { .. } => Some(libc::EPERM),
            Self::Busy { .. } => Some(libc::EBUSY),
            Self::NoTap { .. } => Some(libc::EINVAL),
            Self::Other { source, .. } => source.raw_os_error(),
        }
    }
}

/// Creates the interface, or attaches to the persistent one of that name. Its state, up or down,
/// stays.
pub(super) fn open(name: &str) -> Result<File, TapError> {
    open_tap(name).map_err(|error| TapError::of(name, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_to_do() {
        for (code, remedy) in [
            (libc::ENOENT, "modprobe tun"),
            (libc::EPERM, "CAP_NET_ADMIN"),
            (libc::EBUSY, "give another name"),
            (libc::EINVAL, "is not a TAP"),
            (libc::ENOMEM, "memory"),
        ] {
            let error = TapError::of("lab0", io::Error::from_raw_os_error(code));
            let number = if code == libc::ENOENT {
                libc::ENODEV
            } else {
                code
            };
            assert_eq!(error.errno(), Some(number));
            let error = error.to_string();
            assert!(error.starts_with("TAP interface lab0: "), "{error}");
            assert!(error.contains(remedy), "{error}");
        }
    }
}
