//! Error numbers of Linux, for programs whose error paths use them.
//!
//! Verbs return such a number. Here every error has a type and a text, and its `errno()` is the
//! number that a verbs program would get instead. The values are those of Linux on x86, Arm and
//! RISC-V (`asm-generic/errno.h`). The table of errors and numbers is in `docs/verbs.md`.

use crate::{DmaError, NoHostMemory, WaitError};

/// No such file.
pub const ENOENT: i32 = 2;
/// Input/output error: the device failed, or gave a reply that makes no sense.
pub const EIO: i32 = 5;
/// Out of memory, or of room in a queue.
pub const ENOMEM: i32 = 12;
/// Memory that is not there, or may not be used like that.
pub const EFAULT: i32 = 14;
/// In use.
pub const EBUSY: i32 = 16;
/// No such device, or no more.
pub const ENODEV: i32 = 19;
/// Invalid argument.
pub const EINVAL: i32 = 22;
/// The device has a limited number of them, and none is left.
pub const ENOSPC: i32 = 28;
/// Not offered by this device.
pub const EOPNOTSUPP: i32 = 95;
/// The network is down.
pub const ENETDOWN: i32 = 100;
/// A table of addresses is full.
pub const ENOBUFS: i32 = 105;
/// No answer in time.
pub const ETIMEDOUT: i32 = 110;

impl WaitError {
    /// The error number of Linux.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Timeout { .. } => ETIMEDOUT,
            Self::DeviceGone { .. } => ENODEV,
        }
    }
}

impl DmaError {
    /// The error number of Linux.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match self {
            // The kernel's ENOSPC (no addresses, no further mapping) is ENOMEM for a
            // program that registers: verbs have no other number for "no room".
            Self::OutOfMemory { .. }
            | Self::Refused { .. }
            | Self::LockLimit { .. }
            | Self::NoAddresses { .. }
            | Self::TooManyMappings { .. } => ENOMEM,
            Self::NotAccessible { .. } => EFAULT,
            Self::BadRange { .. } => EINVAL,
            Self::NoFile { .. } => EOPNOTSUPP,
        }
    }
}

impl NoHostMemory {
    /// The error number of Linux.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        ENOMEM
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;

    #[test]
    fn each_reason_of_a_refused_mapping_has_its_number() {
        let (address, bytes, align) = (0x1000, 4096, 8);
        let access = Access::Read;
        let (limit, in_use) = (0, None);
        for (error, number) in [
            (DmaError::OutOfMemory { bytes, align }, 12),
            (DmaError::BadRange { address, bytes }, 22),
            (DmaError::Refused { address, bytes }, 12),
            (
                DmaError::NotAccessible {
                    address,
                    bytes,
                    access,
                },
                14,
            ),
            (
                DmaError::LockLimit {
                    bytes,
                    limit,
                    in_use,
                },
                12,
            ),
            (DmaError::NoAddresses { bytes }, 12),
            (DmaError::TooManyMappings { bytes }, 12),
            (DmaError::NoFile { address, bytes }, 95),
        ] {
            assert_eq!(error.errno(), number, "{error:?}");
        }
    }
}
