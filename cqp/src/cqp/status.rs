//! Status of a command and of its failure, as registers report it (control-path 4.3).

use e810_hal::Platform;
use e810_hal::clock::live;
use e810_hal::regs::PFPE_CQPERRCODES;

use crate::error::Result;

/// What CQPTAIL says about a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tail {
    /// It failed.
    Failed,
    /// It was consumed.
    Moved,
    /// Nothing yet.
    Still,
}

/// PFPE_CQPERRCODES, major first.
pub(super) fn error_codes<P: Platform>(platform: &P) -> Result<(u16, u16)> {
    let codes = PFPE_CQPERRCODES.read(platform);
    live("PFPE_CQPERRCODES", codes.get())?;
    // Both fields have 16 bits.
    Ok((
        codes.read(PFPE_CQPERRCODES::CQP_MAJOR_CODE) as u16,
        codes.read(PFPE_CQPERRCODES::CQP_MINOR_CODE) as u16,
    ))
}
