//! The error codes of the firmware: names and remedies, in one table.

use core::fmt;

/// The low byte of a reply's `retval` (control-path 9.1). Values that are not
/// in the table keep their number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Code(pub u8);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $remedy:literal;)+) => {
        impl Code {
            $($(#[$doc])* pub const $name: Self = Self($code);)+

            /// Short name, as the field writes it; "unknown" for a code that is
            /// not documented.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($code => stringify!($name),)+
                    _ => "unknown",
                }
            }

            /// What the caller can do.
            #[must_use]
            pub const fn remedy(self) -> &'static str {
                match self.0 {
                    $($code => $remedy,)+
                    _ => "this code is not documented: check the arguments of the command",
                }
            }
        }
    };
}

codes! {
    /// No error.
    OK = 0, "nothing to do";
    /// Operation not permitted.
    EPERM = 1, "the function may not do this: another function owns the resource, or the card's settings forbid it";
    /// No such element.
    ENOENT = 2, "the object does not exist: it was removed, or never made";
    /// Bad opcode.
    ESRCH = 3, "this firmware does not know the command: update the card's firmware";
    /// I/O error.
    EIO = 5, "the firmware could not reach a part of the card: reset the function and try again";
    /// Try again.
    EAGAIN = 8, "the firmware is not ready: try again";
    /// Out of memory.
    ENOMEM = 9, "the buffer is too small, or the firmware is out of memory";
    /// Permission denied.
    EACCES = 10, "the function may not do this: check the card's settings";
    /// Busy.
    EBUSY = 12, "another function holds the resource: try again";
    /// Exists already.
    EEXIST = 13, "it exists, or was done, already: an object of this function goes with a reset of the function, what the card's functions share stays until the card is reset";
    /// Invalid argument.
    EINVAL = 14, "an argument is not accepted: the firmware may be older than this driver expects";
    /// No space.
    ENOSPC = 16, "the table or the tree is full: other functions of the card may use it too";
    /// Not implemented.
    ENOSYS = 17, "this firmware does not implement the command: update the card's firmware";
    /// Wrong mode.
    EMODE = 21, "not possible in the firmware's present mode: power-cycle the card";
    /// No security.
    ENOSEC = 24, "the package's security was not accepted: use the package that belongs to this firmware";
    /// Bad signature.
    EBADSIG = 25, "the package's signature is wrong: use an unmodified package file";
    /// Security version.
    ESVN = 26, "the package is older than the firmware allows: use a newer package";
    /// Bad manifest.
    EBADMAN = 27, "the package's manifest is wrong: use an unmodified package file";
    /// Bad buffer.
    EBADBUF = 28, "the package's buffer is wrong: use an unmodified package file";
}

impl Code {
    /// Whether the command may be taken at another time.
    #[must_use]
    pub const fn is_busy(self) -> bool {
        matches!(self, Self::EBUSY | Self::EAGAIN)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn an_unknown_code_keeps_its_value() {
        assert_eq!(format!("{}", Code(11)), "unknown (11)");
        assert_eq!(format!("{}", Code::ENOSPC), "ENOSPC (16)");
        assert!(Code(200).remedy().contains("not documented"));
    }
}
