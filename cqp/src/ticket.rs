//! Identifier of a command in flight, and its result.

use crate::error::{Error, Result};
use crate::opcode::Opcode;

/// A command that was posted: the claim on its [`Completion`].
///
/// It names WQE index and lap of one CQP, so it is good once. Hand it to
/// [`Cqp::wait`](crate::Cqp::wait), compare it with the
/// [`Completion::ticket`] of [`Cqp::poll`](crate::Cqp::poll), or give it up
/// with [`Cqp::forget`](crate::Cqp::forget); a ticket that is dropped leaves
/// its completion to `poll`.
#[must_use = "the command's completion waits for this ticket: wait for it, poll, or forget it"]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ticket {
    pub(crate) sequence: u64,
    pub(crate) op: Opcode,
}

impl Ticket {
    /// The command.
    #[must_use]
    pub const fn op(self) -> Opcode {
        self.op
    }
}

/// How a command ended. From [`Cqp::poll`](crate::Cqp::poll) it may be a failure:
/// see [`Completion::check`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Completion {
    /// The command's ticket.
    pub ticket: Ticket,
    /// The command.
    pub op: Opcode,
    /// OPRETVAL: a value that some commands return (an index, a handle). 0 for
    /// a command whose end was learnt from registers.
    pub ret_val: u32,
    /// Major code; only meaningful with `error`.
    pub major: u16,
    /// Minor code; FLUSH_WQES reports through it without `error`
    /// ([`Flushed`](crate::code::Flushed)).
    pub minor: u16,
    /// The device failed the command.
    pub error: bool,
}

impl Completion {
    /// The completion, unless the command failed.
    ///
    /// # Errors
    /// [`Error::Cqp`].
    pub fn check(self) -> Result<Self> {
        if self.error {
            return Err(Error::Cqp {
                op: self.op,
                major: self.major,
                minor: self.minor,
            });
        }
        Ok(self)
    }
}

/// What a CQP has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counters {
    /// Commands posted.
    pub posted: u64,
    /// Commands that ended, well or not.
    pub completed: u64,
    /// Commands that the device failed.
    pub failed: u64,
    /// Of those, failures that were passed over, as existing drivers do.
    pub passed_over: u64,
    /// Of those, failures by which the device asked for a reset of the function
    /// (0xFFFF/0x8029).
    pub reset_requests: u64,
    /// CCQ entries that fit no outstanding command; they were skipped.
    pub malformed: u64,
    /// Completions that came after their command was given up.
    pub late: u64,
}
