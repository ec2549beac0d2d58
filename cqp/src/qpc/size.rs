//! Encoded sizes (control-path 4.1, 5.3).

use crate::error::{Error, Result};

/// log2(`quanta` / 4): SQSIZE and RQSIZE of a QP context.
///
/// # Errors
/// [`Error::Invalid`] unless `quanta` is a power of two of at least 4.
pub const fn queue_size_code(quanta: u32) -> Result<u8> {
    if quanta < 4 || !quanta.is_power_of_two() {
        return Err(Error::Invalid {
            what: "a work queue has a power of two of quanta, at least 4",
        });
    }
    // At most 31 - 2.
    Ok(quanta.trailing_zeros().saturating_sub(2) as u8)
}

/// 1 + log2(`entries` / 4): SQSIZE of the CQP host context. The CQP itself has
/// at most [`MAX_SQ_ENTRIES`](crate::limits::MAX_SQ_ENTRIES).
///
/// # Errors
/// [`Error::Invalid`] unless `entries` is a power of two of at least 4.
pub const fn cqp_size_code(entries: u32) -> Result<u8> {
    match queue_size_code(entries) {
        Ok(code) => Ok(code.saturating_add(1)),
        Err(error) => Err(error),
    }
}

/// IRDSIZE for `ird` inbound reads: codes 0 to 4 for twice that many, rounded
/// up to a power of two: 4, up to 16, up to 64, 128, 256. Anything else has
/// code 0 as well, so values above [`MAX_IRD`](crate::limits::MAX_IRD) must be
/// refused by the caller.
#[must_use]
pub const fn ird_code(ird: u32) -> u8 {
    let twice = match ird.checked_mul(2) {
        Some(twice) => twice.checked_next_power_of_two(),
        None => None,
    };
    match twice {
        Some(8 | 16) => 1,
        Some(32 | 64) => 2,
        Some(128) => 3,
        Some(256) => 4,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(queue_size_code(4), Ok(0));
        assert_eq!(queue_size_code(1 << 31), Ok(29));
        for bad in [0, 1, 2, 3, 5, 12, u32::MAX] {
            assert!(queue_size_code(bad).is_err());
        }
        assert_eq!(cqp_size_code(4), Ok(1));
        assert_eq!(cqp_size_code(2048), Ok(10));
        assert!(cqp_size_code(2).is_err());
    }

    #[test]
    fn inbound_reads() {
        assert_eq!(
            [0, 1, 2, 3, 4, 8, 9, 32, 33, 64, 65, 128, 129].map(ird_code),
            [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4, 0]
        );
        assert_eq!(ird_code(u32::MAX), 0);
    }
}
