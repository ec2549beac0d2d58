//! Errors of this crate.

use e810_hal::{DmaError, Iova, NoHostMemory, WaitError};

use crate::code;
use crate::hmc::Object;
use crate::opcode::Opcode;

/// An error of the CQP or the HMC: what happened, to which object, what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error {
    /// An argument does not fit the field that carries it. Nothing was posted.
    #[error("{field} is {value:#x}, but at most {limit:#x} fits: pass a smaller value")]
    OutOfRange {
        /// The field, with its object.
        field: &'static str,
        /// The value given.
        value: u64,
        /// The greatest value that fits.
        limit: u64,
    },
    /// An address is not aligned as the format requires. Nothing was posted.
    #[error("{what} at {address:#x} is not a multiple of {align}: align the buffer")]
    Misaligned {
        /// What the address is of.
        what: &'static str,
        /// The address given.
        address: u64,
        /// The alignment required, in bytes.
        align: u64,
    },
    /// Arguments that form no command. Nothing was posted.
    #[error("{what}")]
    Invalid {
        /// What is wrong, and what would be right.
        what: &'static str,
    },
    /// The device refused to create the CQP (CCQPSTATUS.CCQP_ERR).
    #[error(
        "the device refused the CQP (major {major:#06x}, minor {minor:#06x}): reset the function and try again"
    )]
    CqpRefused {
        /// Major code of PFPE_CQPERRCODES.
        major: u16,
        /// Minor code of PFPE_CQPERRCODES.
        minor: u16,
    },
    /// The device failed a command.
    #[error(
        "{op} failed: {} (major {major:#06x}, minor {minor:#06x}): {}",
        code::meaning(*major, *minor).name,
        code::meaning(*major, *minor).remedy
    )]
    Cqp {
        /// The command.
        op: Opcode,
        /// Major code.
        major: u16,
        /// Minor code.
        minor: u16,
    },
    /// A wait ended without an answer, or the device is gone.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// No memory for the device.
    #[error(transparent)]
    Dma(#[from] DmaError),
    /// No memory for tables.
    #[error(transparent)]
    HostMemory(#[from] NoHostMemory),
    /// The send queue has no free entry.
    #[error(
        "all {entries} usable entries of the CQP are in use: take completions with poll(), or create a larger CQP"
    )]
    RingFull {
        /// Entries that can be in use at a time.
        entries: u32,
    },
    /// Without the CCQ only one command can be in flight, and this one has not
    /// finished.
    #[error("{op} has not finished: wait for it, or reset the function if it timed out")]
    Unfinished {
        /// The command in flight.
        op: Opcode,
    },
    /// The ticket's command has been reported already, or was never posted here.
    #[error("this ticket is not outstanding: each ticket gives its completion once")]
    UnknownTicket,
    /// The call needs the CCQ, which is not attached.
    #[error("the CCQ is not attached: call attach_ccq() first")]
    NoCcq,
    /// The CCQ is attached already.
    #[error("the CCQ is attached already")]
    CcqAttached,
    /// The device has fewer objects than the capacity asks for.
    #[error(
        "{wanted} {object} objects are wanted, the device has {max}: ask for a smaller capacity"
    )]
    Capacity {
        /// The kind of object.
        object: Object,
        /// Count wanted.
        wanted: u64,
        /// The device's maximum.
        max: u64,
    },
    /// The objects need more FPM space than the device gives this function.
    #[error(
        "the HMC objects need {needed} segments of 2 MiB, the device has {max}: ask for a smaller capacity"
    )]
    Segments {
        /// Segments needed.
        needed: u64,
        /// MAX_PE_SDS of the FPM query.
        max: u64,
    },
    /// A reply of the device makes no sense.
    #[error("the device's reply is not usable ({what} is {value:#x}): reset the function")]
    Reply {
        /// The field of the reply.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// There is no such object in the committed layout.
    #[error("{object} {index} does not exist: {count} were committed")]
    NoObject {
        /// The kind of object.
        object: Object,
        /// The index given.
        index: u32,
        /// Objects committed.
        count: u32,
    },
    /// The PBLE area has no room.
    #[error(
        "no room for {wanted} PBLEs ({free} free, perhaps in pieces): use larger pages, free regions, or raise the capacity's pbles"
    )]
    NoPbles {
        /// PBLEs wanted.
        wanted: u32,
        /// PBLEs free.
        free: u32,
    },
    /// The table of HMC allocations is full.
    #[error("the HMC has reached its {limit} allocations: create it with Backing::Full")]
    Allocations {
        /// Allocations there can be.
        limit: usize,
    },
    /// An address that should lie in HMC backing does not: the page table in
    /// DMA memory was changed by the device.
    #[error("no HMC backing at device address {address}: reset the function")]
    NoBacking {
        /// The device address looked for.
        address: Iova,
    },
}

impl Error {
    /// Whether existing drivers reset the function after this: the device asks for it with this
    /// answer (control-path 4.5), or did not answer.
    #[must_use]
    pub const fn needs_reset(&self) -> bool {
        match self {
            Self::Cqp { major, minor, .. } => code::needs_reset(*major, *minor),
            Self::Wait(_) => true,
            _ => false,
        }
    }

    /// Whether the device may still carry out the command that failed. Memory that it was given
    /// must then not be freed.
    #[must_use]
    pub const fn leaves_command_open(&self) -> bool {
        matches!(self, Self::Wait(_))
    }

    /// Whether the device failed FLUSH_WQES because nothing is outstanding, or MODIFY_QP because
    /// of the queue pair's state. For a MODIFY_QP to ERROR the latter means that there is nothing
    /// to stop; for any other it is a failure.
    #[must_use]
    pub fn is_done_already(&self) -> bool {
        match *self {
            Self::Cqp { op, major, minor } => code::meaning(major, minor).done_already == Some(op),
            _ => false,
        }
    }
}

/// The result of everything in this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_failed_command_says_what_and_what_to_do() {
        let error = Error::Cqp {
            op: Opcode::ModifyQp,
            major: 0xFFFF,
            minor: 0x8002,
        };
        assert_eq!(
            error.to_string(),
            "MODIFY_QP failed: invalid state (major 0xffff, minor 0x8002): \
             the object is not in a state that allows this command: check its state and retry"
        );
        let unknown = Error::Cqp {
            op: Opcode::Unknown(0x17),
            major: 7,
            minor: 9,
        };
        assert!(
            unknown
                .to_string()
                .starts_with("opcode 0x17 failed: unknown error (major 0x0007, minor 0x0009)")
        );
    }

    #[test]
    fn what_holds_already_depends_on_the_command() {
        let error = |op, minor| Error::Cqp {
            op,
            major: 0xFFFF,
            minor,
        };
        assert!(error(Opcode::ModifyQp, 0x8002).is_done_already());
        assert!(error(Opcode::FlushWqes, 0x8006).is_done_already());
        assert!(!error(Opcode::FlushWqes, 0x8002).is_done_already());
        assert!(!error(Opcode::ModifyCq, 0x8002).is_done_already());
        assert!(!error(Opcode::ModifyQp, 0x8006).is_done_already());
        assert!(!error(Opcode::ModifyQp, 0x80FF).is_done_already());
        assert!(!Error::UnknownTicket.is_done_already());
    }

    #[test]
    fn a_device_that_asks_for_a_reset_is_distinguished_from_one_that_refuses() {
        let error = |minor| Error::Cqp {
            op: Opcode::CreateQp,
            major: 0xFFFF,
            minor,
        };
        assert!(error(0x8029).needs_reset());
        assert!(error(0x8029).to_string().contains("reset the function"));
        assert!(!error(0x8002).needs_reset());
        assert!(Error::Wait(WaitError::DeviceGone { label: "x" }).needs_reset());
    }

    #[test]
    fn only_an_ended_wait_leaves_the_device_working() {
        assert!(Error::Wait(WaitError::DeviceGone { label: "x" }).leaves_command_open());
        assert!(!Error::UnknownTicket.leaves_command_open());
    }
}
