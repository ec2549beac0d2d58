//! Why the requests of a QP were flushed.

use core::fmt;

/// Minor code with which a QP's requests are flushed (control-path 4.12,
/// data-path 4.4). The device writes it into CQEs: unknown values are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(transparent)]
pub struct FlushCode(pub u16);

macro_rules! flush_codes {
    ($($(#[$doc:meta])* $constant:ident = $value:literal, $name:literal;)+) => {
        impl FlushCode {
            $($(#[$doc])* pub const $constant: Self = Self($value);)+

            /// Every known code, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$constant),+];

            /// Name, as in the reference; `None` for an unknown code.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$constant => Some($name),)+
                    _ => None,
                }
            }
        }
    };
}

flush_codes! {
    /// Flushed because another request failed, or for no particular reason.
    GENERAL = 1, "GENERAL_ERR";
    /// Local protection error.
    PROT = 2, "PROT_ERR";
    /// The peer refused access to its memory.
    REM_ACCESS = 3, "REM_ACCESS_ERR";
    /// The request itself was bad.
    LOC_QP_OP = 4, "LOC_QP_OP_ERR";
    /// The peer could not complete the request.
    REM_OP = 5, "REM_OP_ERR";
    /// A message and a buffer do not fit.
    LOC_LEN = 6, "LOC_LEN_ERR";
    /// The QP failed.
    FATAL = 7, "FATAL_ERR";
    /// Transport retries were used up.
    RETRY_EXC = 8, "RETRY_EXC_ERR";
    /// A memory window could not be bound.
    MW_BIND = 9, "MW_BIND_ERR";
    /// The peer called the request invalid.
    REM_INV_REQ = 10, "REM_INV_REQ_ERR";
    /// The peer had no receive posted for too long.
    RNR_RETRY_EXC = 11, "RNR_RETRY_EXC_ERR";
}

impl fmt::Display for FlushCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "flush code {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn unknown_codes_are_kept() {
        for number in [0, 12, u16::MAX] {
            assert_eq!(FlushCode(number).name(), None);
            assert!(!FlushCode::ALL.contains(&FlushCode(number)));
        }
        assert_eq!(FlushCode::RETRY_EXC.to_string(), "RETRY_EXC_ERR");
        assert_eq!(FlushCode(12).to_string(), "flush code 12");
    }
}
