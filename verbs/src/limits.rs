//! Limits that registrations run into, which an error number does not name.

use std::sync::atomic::{AtomicBool, Ordering};

use e810_hal::DmaError;

use crate::control::Refused;
use crate::device::complain::complain;

/// One line on standard error with the limit and what to set it to, the first time in a process.
pub(crate) fn complain_of(refused: &Refused) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if let Some(error) = limit(refused)
        && !SAID.swap(true, Ordering::Relaxed)
    {
        complain(&format!("memory is not registered: {error}"));
    }
}

/// A limit that the system's administrator sets.
const fn limit(refused: &Refused) -> Option<&DmaError> {
    match refused {
        Refused::Driver(e810::Error::Dma(
            error @ (DmaError::LockLimit { .. } | DmaError::TooManyMappings { .. }),
        )) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_system_are_limits() {
        let refused = |error: DmaError| Refused::Driver(error.into());
        let (bytes, limit_is, in_use) = (4096, 8192, None);
        let limit_of_locking = DmaError::LockLimit {
            bytes,
            limit: limit_is,
            in_use,
        };
        assert!(limit(&refused(limit_of_locking)).is_some());
        assert!(limit(&refused(DmaError::TooManyMappings { bytes })).is_some());
        assert!(limit(&refused(DmaError::NoAddresses { bytes })).is_none());
        assert!(limit(&Refused::Gone(String::new())).is_none());
    }
}
