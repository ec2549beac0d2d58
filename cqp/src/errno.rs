//! Error numbers of Linux for this crate's errors.

use e810_hal::errno::{EBUSY, EINVAL, EIO, ENOMEM};

use crate::error::Error;

impl Error {
    /// The [error number of Linux](e810_hal::errno).
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Wait(error) => error.errno(),
            Self::Dma(error) => error.errno(),
            Self::HostMemory(error) => error.errno(),
            Self::OutOfRange { .. }
            | Self::Misaligned { .. }
            | Self::Invalid { .. }
            | Self::UnknownTicket
            | Self::NoCcq
            | Self::CcqAttached
            | Self::Capacity { .. }
            | Self::Segments { .. }
            | Self::NoObject { .. } => EINVAL,
            Self::CqpRefused { .. }
            | Self::Cqp { .. }
            | Self::Reply { .. }
            | Self::NoBacking { .. } => EIO,
            Self::RingFull { .. } | Self::Unfinished { .. } => EBUSY,
            Self::NoPbles { .. } | Self::Allocations { .. } => ENOMEM,
        }
    }
}
