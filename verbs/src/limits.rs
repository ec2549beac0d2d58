//! Limits that programs run into, which an error number does not name.

use std::sync::Mutex;

use e810_hal::DmaError;

use crate::control::Refused;
use crate::control::in_process::QUEUE_ENTRIES;
use crate::device::complain::complain;

/// One line on standard error with what was `refused`, the limit and what to do, the first time in
/// a process.
pub(crate) fn complain_of(what: &'static str, refused: &Refused) {
    static SAID: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let Some(limit) = limit(refused) else {
        return;
    };
    if let Ok(mut said) = SAID.lock()
        && !said.contains(&what)
    {
        said.push(what);
        complain(&format!("{what}: {limit}"));
    }
}

/// A limit of the system, or of how a function was brought up.
fn limit(refused: &Refused) -> Option<String> {
    match refused {
        Refused::Driver(e810::Error::Dma(
            error @ (DmaError::LockLimit { .. } | DmaError::TooManyMappings { .. }),
        )) => Some(error.to_string()),
        Refused::Driver(e810::Error::Datapath(e810::DatapathError::Slot(
            e810::SlotError::NoSpace { words },
        ))) => Some(format!(
            "its queues need {} entries in one piece, and of the function's, {QUEUE_ENTRIES} at most, there are not as many left: \
             make fewer queue pairs, or smaller ones",
            words / 3
        )),
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

    #[test]
    fn entries_of_queues_are_a_limit() {
        let slots = e810::SlotError::NoSpace { words: 3 * 4096 };
        let refused = Refused::Driver(e810::DatapathError::from(slots).into());
        let text = limit(&refused).unwrap();
        assert!(text.contains("need 4096 entries"), "{text}");
    }
}
