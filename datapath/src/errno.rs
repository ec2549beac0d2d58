//! Error numbers of Linux for this crate's errors.

use e810_hal::errno::{EBUSY, EINVAL, ENOMEM, EOPNOTSUPP};

use crate::error::{Error, PostError, Refused, SizeError, SlotError};
use crate::state::TransitionError;

impl PostError {
    /// The [error number of Linux](e810_hal::errno): what `ibv_post_send` and
    /// `ibv_post_recv` return.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Full { .. } => ENOMEM,
            Self::NotOffered { .. } => EOPNOTSUPP,
            Self::TooManySges { .. }
            | Self::InlineTooLong { .. }
            | Self::SgeTooLong { .. }
            | Self::MessageTooLong { .. }
            | Self::WrongState { .. }
            | Self::WrongOp { .. }
            | Self::NoSuchAh { .. }
            | Self::Field { .. }
            | Self::Memory { .. } => EINVAL,
        }
    }
}

impl Refused {
    /// The [error number of Linux](e810_hal::errno).
    #[must_use]
    pub const fn errno(&self) -> i32 {
        self.error.errno()
    }
}

impl SizeError {
    /// The [error number of Linux](e810_hal::errno).
    #[must_use]
    pub const fn errno(&self) -> i32 {
        EINVAL
    }
}

impl SlotError {
    /// The [error number of Linux](e810_hal::errno).
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match self {
            Self::NoSuchId { .. }
            | Self::Gone { .. }
            | Self::NotTaken { .. }
            | Self::NoChannel { .. }
            | Self::Failed { .. }
            | Self::OtherTable { .. }
            | Self::Memory { .. } => EINVAL,
            Self::Busy { .. } | Self::InUse { .. } | Self::ChannelInUse { .. } => EBUSY,
            Self::NoSpace { .. } => ENOMEM,
        }
    }
}

impl TransitionError {
    /// The [error number of Linux](e810_hal::errno).
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match self {
            Self::NotPossible { .. }
            | Self::Missing { .. }
            | Self::Forbidden { .. }
            | Self::CurState { .. }
            | Self::OtherState { .. } => EINVAL,
            Self::Draining => EBUSY,
        }
    }
}

impl Error {
    /// The [error number of Linux](e810_hal::errno).
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Post(error) => error.errno(),
            Self::List(error) => error.errno(),
            Self::Size(error) => error.errno(),
            Self::Slot(error) => error.errno(),
            Self::Transition(error) => error.errno(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::vec::Vec;

    use super::*;
    use e810_types::{QpState, QpType, WorkQueue};

    const MAP: &str = include_str!("../../docs/verbs.md");

    /// Position of a variant; one that is new is missed here by the compiler.
    const fn place(error: &PostError) -> usize {
        match error {
            PostError::Full { .. } => 0,
            PostError::TooManySges { .. } => 1,
            PostError::InlineTooLong { .. } => 2,
            PostError::SgeTooLong { .. } => 3,
            PostError::MessageTooLong { .. } => 4,
            PostError::WrongState { .. } => 5,
            PostError::WrongOp { .. } => 6,
            PostError::NotOffered { .. } => 7,
            PostError::NoSuchAh { .. } => 8,
            PostError::Field { .. } => 9,
            PostError::Memory { .. } => 10,
        }
    }

    const VARIANTS: usize = 11;

    #[test]
    fn each_refusal_of_a_post_has_the_number_that_the_page_says() {
        let queue = WorkQueue::Send;
        let (got, limit) = (3, 2);
        let refusals = [
            (
                PostError::Full {
                    queue,
                    needed: 2,
                    free: 1,
                },
                "ENOMEM",
                12,
            ),
            (PostError::TooManySges { queue, got, limit }, "EINVAL", 22),
            (PostError::InlineTooLong { got, limit }, "EINVAL", 22),
            (
                PostError::SgeTooLong {
                    index: 0,
                    length: 3,
                    limit,
                },
                "EINVAL",
                22,
            ),
            (PostError::MessageTooLong { bytes: 3, limit }, "EINVAL", 22),
            (
                PostError::WrongState {
                    queue,
                    state: QpState::Reset,
                },
                "EINVAL",
                22,
            ),
            (
                PostError::WrongOp {
                    op: "x",
                    qp_type: QpType::Ud,
                },
                "EINVAL",
                22,
            ),
            (PostError::NotOffered { op: "x" }, "EOPNOTSUPP", 95),
            (PostError::NoSuchAh { ah: 3, limit }, "EINVAL", 22),
            (
                PostError::Field {
                    field: "x",
                    value: 3,
                    limit: 2,
                },
                "EINVAL",
                22,
            ),
            (PostError::Memory { queue }, "EINVAL", 22),
        ];
        let mut places: Vec<usize> = refusals.iter().map(|(error, ..)| place(error)).collect();
        places.dedup();
        assert_eq!(places, (0..VARIANTS).collect::<Vec<_>>());
        for (error, name, number) in refusals {
            assert_eq!(error.errno(), number, "{error:?}");
            assert_eq!(Refused { posted: 1, error }.errno(), number);
            let debug = format!("{error:?}");
            let variant = debug.split(' ').next().unwrap_or_default();
            let row = format!("| {name} | {number} | ");
            let row = MAP.lines().find(|line| line.starts_with(&row)).unwrap();
            assert!(row.contains(&format!("`PostError::{variant}`")), "{row}");
        }
    }
}
