//! Error numbers of Linux for this crate's errors.

use e810_hal::errno::{EINVAL, EIO, ENOSPC};

use crate::error::Error;

impl Error {
    /// The [error number of Linux](e810_hal::errno).
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Entries { .. }
            | Self::Memory { .. }
            | Self::NoCeqs { .. }
            | Self::Interval { .. } => EINVAL,
            Self::NoVectors => ENOSPC,
            Self::AeqOverflow => EIO,
        }
    }
}
