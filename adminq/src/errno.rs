//! Error numbers of Linux for this crate's errors.

use e810_hal::errno::{EBUSY, EINVAL, EIO, ENETDOWN, ENODEV, ENOENT, ENOSPC, EOPNOTSUPP};

use crate::error::Error;

impl Error {
    /// The [error number of Linux](e810_hal::errno).
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Wait(error) => error.errno(),
            Self::Dma(error) => error.errno(),
            Self::Refused { .. }
            | Self::LongReply { .. }
            | Self::ShortReply { .. }
            | Self::BadReply { .. }
            | Self::BadHead { .. }
            | Self::NotProgrammed { .. }
            | Self::Unanswered { .. }
            | Self::CriticalFirmware { .. }
            | Self::RecoveryMode { .. }
            | Self::ConfiguredWithoutPackage
            | Self::PackageRefused { .. }
            | Self::BadTree { .. } => EIO,
            Self::TooLong { .. }
            | Self::OutOfRange { .. }
            | Self::Package(_)
            | Self::NoTrafficClass { .. } => EINVAL,
            Self::QueueOff { .. } => ENODEV,
            Self::ApiTooNew { .. }
            | Self::NoRdma
            | Self::ActivePackage { .. }
            | Self::FirmwareTooOld { .. } => EOPNOTSUPP,
            Self::NoPackage => ENOENT,
            Self::Locked { .. } => EBUSY,
            Self::TreeFull { .. } => ENOSPC,
            Self::NoLink { .. } => ENETDOWN,
        }
    }
}
