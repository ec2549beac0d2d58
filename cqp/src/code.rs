//! Names and remedies of the codes that a failed command carries.
//!
//! There is one table, from control-path 4.5. Existing drivers do not log the codes that are "not
//! critical" there; the command has failed all the same. Two of these codes say that the
//! requested state already holds, which is distinguished here.
//!
//! A complete list of minor codes is not in the sources; unknown codes keep their numbers.

use crate::opcode::Opcode;

/// What a pair of codes means, and what to do about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Meaning {
    /// Short name.
    pub name: &'static str,
    /// What the caller can do.
    pub remedy: &'static str,
    /// The command for which these codes say that the requested state already holds.
    pub done_already: Option<Opcode>,
}

struct Row {
    major: u16,
    /// `None`: any minor code.
    minor: Option<u16>,
    meaning: Meaning,
}

const fn row(
    major: u16,
    minor: Option<u16>,
    done_already: Option<Opcode>,
    name: &'static str,
    remedy: &'static str,
) -> Row {
    Row {
        major,
        minor,
        meaning: Meaning {
            name,
            remedy,
            done_already,
        },
    }
}

const FAILED: Option<Opcode> = None;

/// First match wins, so rows with a minor code stand before those without.
static TABLE: &[Row] = &[
    row(
        0,
        Some(0x0001),
        FAILED,
        "STag invalid",
        "the region or window does not exist, or its key is an old one: register it again",
    ),
    row(
        0,
        Some(0x0005),
        FAILED,
        "suspend pending",
        "wait for the QP's asynchronous event 0x0900 before going on",
    ),
    row(
        0xFFFF,
        Some(0x8002),
        Some(Opcode::ModifyQp),
        "invalid state",
        "the object is not in a state that allows this command: check its state and retry",
    ),
    row(
        0xFFFF,
        Some(0x8003),
        FAILED,
        "no name; seen on MODIFY_QP before a critical error",
        "look for PE_CRITERR, which came 140 ms later: both are one incident, which a reset of the function ends",
    ),
    row(
        0xFFFF,
        Some(0x8006),
        Some(Opcode::FlushWqes),
        "flush, no WQE pending",
        "nothing was outstanding: no action needed",
    ),
    row(
        0xFFFF,
        Some(0x8007),
        FAILED,
        "modify QP, bad close",
        "the connection was closing already: destroy the QP",
    ),
    row(
        0xFFFF,
        Some(0x8009),
        FAILED,
        "LLP closed",
        "the connection is gone: destroy the QP",
    ),
    row(
        0xFFFF,
        Some(0x800A),
        FAILED,
        "reset not sent",
        "the peer may not know that the connection ended: destroy the QP",
    ),
    row(
        0xFFFF,
        Some(0x8029),
        FAILED,
        "no name; existing drivers reset the function on it",
        "reset the function and bring it up again",
    ),
    row(
        0xFFFF,
        Some(0x0200),
        FAILED,
        "failover pending",
        "retry after the link failover",
    ),
    row(
        0xF000,
        None,
        FAILED,
        "object cache error",
        "an HMC object could not be reached: check that the HMC is backed, then reset the function",
    ),
    row(
        0xF001,
        None,
        FAILED,
        "context cache error",
        "a context could not be read: check that the HMC is backed, then reset the function",
    ),
    row(
        0xFFFF,
        None,
        FAILED,
        "command error",
        "this minor code is not documented: check the arguments of the command",
    ),
];

static UNKNOWN: Meaning = Meaning {
    name: "unknown error",
    remedy: "this code is not documented: check the arguments of the command",
    done_already: None,
};

/// What the codes of a failed command mean (control-path 4.5).
#[must_use]
pub fn meaning(major: u16, minor: u16) -> Meaning {
    TABLE
        .iter()
        .find(|row| row.major == major && row.minor.is_none_or(|m| m == minor))
        .map_or(UNKNOWN, |row| row.meaning)
}

/// Whether existing drivers request a reset of the function on these codes; they do so on no
/// others (control-path 4.5).
#[must_use]
pub const fn needs_reset(major: u16, minor: u16) -> bool {
    matches!((major, minor), (0xFFFF, 0x8029))
}

/// What a *successful* FLUSH_WQES reports through its minor code
/// (control-path 4.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Flushed {
    /// Nothing was flushed.
    Nothing,
    /// Only the receive queue was flushed.
    RqOnly,
    /// Only the send queue was flushed.
    SqOnly,
    /// Both requested sides were flushed `[inf flushed_both]`; the code is kept.
    Both(u16),
}

impl Flushed {
    /// The meaning of minor code `minor`.
    #[must_use]
    pub const fn from_minor(minor: u16) -> Self {
        match minor {
            0 => Self::Nothing,
            2 => Self::RqOnly,
            3 => Self::SqOnly,
            other => Self::Both(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn no_row_hides_another() {
        for (i, row) in TABLE.iter().enumerate() {
            let minor = row.minor.unwrap_or(0x7777);
            assert_eq!(meaning(row.major, minor), row.meaning, "row {i}");
        }
    }

    #[test]
    fn unknown_codes_have_a_meaning_too() {
        assert_eq!(meaning(0x1234, 5), UNKNOWN);
        assert_eq!(meaning(0xFFFF, 0x8FFF).name, "command error");
        assert_eq!(meaning(0xF000, 3).name, "object cache error");
        assert!(meaning(0xFFFF, 0x8003).remedy.contains("PE_CRITERR"));
        assert_eq!(meaning(0xFFFF, 0x8003).done_already, None);
    }

    #[test]
    fn one_code_asks_for_a_reset() {
        assert!(needs_reset(0xFFFF, 0x8029));
        assert!(!needs_reset(0xFFFF, 0x8003) && !needs_reset(0xF000, 0x8029));
    }

    #[test]
    fn two_codes_say_that_it_holds_already() {
        let named: Vec<_> = TABLE
            .iter()
            .filter_map(|row| Some((row.meaning.done_already?, row.major, row.minor)))
            .collect();
        assert_eq!(
            named,
            [
                (Opcode::ModifyQp, 0xFFFF, Some(0x8002)),
                (Opcode::FlushWqes, 0xFFFF, Some(0x8006)),
            ]
        );
    }

    #[test]
    fn flush_minors() {
        assert_eq!(Flushed::from_minor(0), Flushed::Nothing);
        assert_eq!(Flushed::from_minor(2), Flushed::RqOnly);
        assert_eq!(Flushed::from_minor(3), Flushed::SqOnly);
        assert_eq!(Flushed::from_minor(1), Flushed::Both(1));
    }
}
