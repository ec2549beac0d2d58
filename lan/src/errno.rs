//! Error numbers of Linux for this crate's errors.

use e810_hal::errno::{EINVAL, ENOMEM, ETIMEDOUT};

use crate::error::Error;

impl Error {
    /// The [error number of Linux](e810_hal::errno).
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Entries { .. }
            | Self::Mtu { .. }
            | Self::Context { .. }
            | Self::FrameLength { .. } => EINVAL,
            Self::Full { .. } => ENOMEM,
            Self::Stalled { .. } => ETIMEDOUT,
            Self::Wait(error) => error.errno(),
            Self::Dma(error) => error.errno(),
        }
    }
}
