//! Error numbers of Linux, for programs whose error paths use them: `errno()` of [`Error`],
//! [`StageError`] and [`PostError`](crate::PostError) returns them. The table of errors and
//! numbers is in `docs/verbs.md`.

pub use e810_hal::errno::{
    EBUSY, EFAULT, EINVAL, EIO, ENETDOWN, ENOBUFS, ENODEV, ENOENT, ENOMEM, ENOSPC, EOPNOTSUPP,
    ETIMEDOUT,
};

use crate::error::{Error, Object, StageError};

#[cfg(test)]
mod tests;

impl Error {
    /// The [error number of Linux](crate::errno) that a verbs program would get instead;
    /// positive. Several errors have the same number: the text says more.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Adminq(error) => error.errno(),
            Self::HalfConfigured(failed) => failed.error.errno(),
            Self::Cqp(error) => error.errno(),
            Self::Datapath(error) => error.errno(),
            Self::Ceq(error) => error.errno(),
            Self::Lan(error) => error.errno(),
            Self::Wait(error) => error.errno(),
            Self::Dma(error) => error.errno(),
            Self::HostMemory(error) => error.errno(),
            Self::NoDoorbells { .. } | Self::NotOffered(_) => EOPNOTSUPP,
            Self::Exhausted {
                object: Object::Arp,
                ..
            } => ENOBUFS,
            Self::Exhausted { .. } | Self::NotForgotten { .. } => ENOMEM,
            Self::InUse { .. } | Self::Unacknowledged { .. } | Self::Alive { .. } => EBUSY,
            Self::ChannelClosed | Self::QueueSet { .. } => EIO,
            Self::NoVector { .. } => ENOSPC,
            Self::Foreign { .. }
            | Self::OutOfRange { .. }
            | Self::NoSuch { .. }
            | Self::Invalid { .. } => EINVAL,
        }
    }
}

impl StageError {
    /// The [error number of Linux](crate::errno) of what went wrong first.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        self.error.errno()
    }
}
