//! Adding a leaf of the tree, and removing it again if it is not where it should be.

use e810_hal::Platform;

use crate::code::Code;
use crate::error::Error;
use crate::op::{Command, GetElement};
use crate::queue::AdminQ;

/// Whether a leaf is gone after `undo`.
fn undone<P: Platform>(queue: &mut AdminQ<P>, undo: &impl Command<Reply = ()>) -> bool {
    match queue.execute(undo) {
        Ok(()) => true,
        Err(error) => error.refusal() == Some(Code::ENOENT),
    }
}

/// A leaf that could not be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NotAdded<T> {
    /// Why.
    pub error: Error,
    /// What the device may have all the same, so that it can be removed. Its TEID is not known,
    /// and is 0.
    pub may_exist: Option<T>,
}

impl<T> NotAdded<T> {
    /// Nothing was made.
    pub(super) const fn before(error: Error) -> Self {
        Self {
            error,
            may_exist: None,
        }
    }
}

impl<T> From<NotAdded<T>> for Error {
    fn from(failed: NotAdded<T>) -> Self {
        failed.error
    }
}

/// The outcome of adding a leaf.
pub(super) enum Placed {
    /// It is there, with this TEID.
    At(u32),
    /// It was not made, or removed again.
    Not {
        error: Error,
        /// Neither is certain.
        may_exist: bool,
    },
}

impl Placed {
    /// What is at a TEID, or may be.
    pub(super) fn named<T>(self, at: impl Fn(u32) -> T) -> Result<T, NotAdded<T>> {
        match self {
            Self::At(teid) => Ok(at(teid)),
            Self::Not { error, may_exist } => Err(NotAdded {
                error,
                may_exist: may_exist.then(|| at(0)),
            }),
        }
    }
}

/// Adds a leaf below `parent` and reads it back: it must hang where requested. Otherwise removes
/// it with `undo`.
pub(super) fn place<P: Platform>(
    queue: &mut AdminQ<P>,
    parent: u32,
    add: &impl Command<Reply = u32>,
    undo: &impl Command<Reply = ()>,
) -> Placed {
    let added = queue.execute(add);
    // A reply that makes no sense may be about a leaf that exists.
    let refused = added.is_err_and(|error| error.refusal().is_some());
    let placed = added.and_then(|teid| {
        let leaf = queue.execute(&GetElement::new(teid))?;
        if leaf.parent == parent {
            Ok(teid)
        } else {
            Err(Error::BadTree {
                what: "element above the new queue",
                value: leaf.parent,
            })
        }
    });
    match placed {
        Ok(teid) => Placed::At(teid),
        Err(error) => {
            // The first error says more than one that undoing may add.
            let may_exist = !refused && (error.leaves_command_open() || !undone(queue, undo));
            Placed::Not { error, may_exist }
        }
    }
}
