//! Errors of the backends.

use std::io;
use std::time::Duration;

use e810_hal::DmaError;

use super::iova::IovaError;

/// Descriptors that programs use beside those of the device: contexts, channels, sockets.
const SPARE: u64 = 64;

/// A failure of a backend: what failed, on which device, and what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// Connecting to the device's server failed.
    #[error("{device}: cannot connect: {cause}; {remedy}")]
    Connect {
        /// The device that was asked for.
        device: String,
        /// The operating system's reason, or what is there instead of a socket.
        cause: String,
        /// What to do.
        remedy: &'static str,
        /// Its error number.
        errno: Option<i32>,
    },
    /// This process may not open as many descriptors as the device takes.
    #[error(
        "{device}: opening it takes {needed} descriptors, and {open} of the {limit} that this process may have are in use: end other programs, or raise the limit (`ulimit -n {}` in the shell that starts it)",
        open + needed + SPARE
    )]
    Descriptors {
        /// The first device.
        device: String,
        /// Descriptors for all devices together.
        needed: u64,
        /// Descriptors in use.
        open: u64,
        /// The limit.
        limit: u64,
        /// EMFILE or ENFILE.
        errno: i32,
    },
    /// A file of the device or of its driver cannot be opened.
    #[error("{device}: {what}")]
    NotOpened {
        /// The device.
        device: String,
        /// Which file, why, and what to do.
        what: String,
        /// The operating system's reason.
        errno: Option<i32>,
    },
    /// No answer within the limit.
    #[error(
        "{device}: no answer to {during} within {limit:?}: the server hangs, serves another client, or speaks another protocol"
    )]
    NoAnswer {
        /// The device.
        device: String,
        /// The request.
        during: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// The other side closed the connection.
    #[error("{device}: the server closed the connection during {during}; start it again")]
    Closed {
        /// The device.
        device: String,
        /// The request.
        during: &'static str,
    },
    /// The other side does not follow the protocol.
    #[error("{device}: not a vfio-user server, or a broken one: {what}")]
    Protocol {
        /// The device.
        device: String,
        /// What was wrong with the answer.
        what: String,
    },
    /// The device, its server or the kernel refused a request.
    #[error("{device}: {during} was refused: {cause}")]
    Refused {
        /// The device.
        device: String,
        /// The request.
        during: &'static str,
        /// The reason given.
        cause: String,
    },
    /// Memory was not mapped for the device.
    #[error("{device}: {cause}")]
    NotMapped {
        /// The device.
        device: String,
        /// Why, and what to do.
        cause: DmaError,
    },
    /// Not a device that this driver supports.
    #[error(
        "{device}: PCI id {vendor:04x}:{id:04x} is not a physical function of an E810; name another device"
    )]
    NotE810 {
        /// The device.
        device: String,
        /// PCI vendor id.
        vendor: u16,
        /// PCI device id.
        id: u16,
    },
    /// The device does not have what the driver needs.
    #[error("{device}: {what}")]
    Unfit {
        /// The device.
        device: String,
        /// What is missing.
        what: String,
    },
    /// Devices of different kinds, or simulated ones with different options, cannot be opened
    /// together.
    #[error(
        "{device} and {other}: these are different kinds of devices; name two of one kind, and simulated ones with the same options"
    )]
    Unlike {
        /// The first device.
        device: String,
        /// One of the others.
        other: String,
    },
    /// The wire of a simulated device cannot be joined.
    #[cfg(feature = "sim")]
    #[error("{device}: {cause}")]
    Wire {
        /// The device.
        device: String,
        /// Why, and what to do.
        cause: e810_sim_wire::WireError,
    },
    /// The operating system refused something that does not concern the device.
    #[error("{device}: {during}: {cause}")]
    System {
        /// The device.
        device: String,
        /// The request.
        during: &'static str,
        /// The operating system's reason.
        cause: String,
        /// Its error number.
        errno: Option<i32>,
    },
    /// No I/O addresses are left.
    #[error("{device}: {cause}")]
    Iova {
        /// The device.
        device: String,
        /// The cause.
        cause: IovaError,
    },
}

impl BackendError {
    /// The operating system's error, with the request that failed.
    #[must_use]
    pub fn system(device: &str, during: &'static str, cause: &io::Error) -> Self {
        Self::System {
            device: device.to_owned(),
            during,
            cause: cause.to_string(),
            errno: cause.raw_os_error(),
        }
    }

    /// The operating system's error number, if that is the cause.
    #[must_use]
    pub const fn errno(&self) -> Option<i32> {
        match self {
            Self::Connect { errno, .. }
            | Self::NotOpened { errno, .. }
            | Self::System { errno, .. } => *errno,
            Self::Descriptors { errno, .. } => Some(*errno),
            #[cfg(feature = "sim")]
            Self::Wire { cause, .. } => cause.errno(),
            _ => None,
        }
    }
}
