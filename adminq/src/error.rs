//! Errors of this crate.

use e810_hal::{DmaError, WaitError};

use crate::code::Code;
use crate::opcode::Opcode;
use crate::package::{PackageError, Version as PackageVersion};

/// What helps once the global configuration lock was given (field-evidence 3.4, 3.5).
pub(crate) const UNTIL_CORE_RESET: &str = "the card's configuration lock is used up (erratum E02), so no function of the card can load a package before a core reset: reset the card (`e810 up --reset-card`, `reset_card`) or restart the machine";

/// An error of a cold start: what happened, to which object, what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error {
    /// The firmware refused a command.
    #[error("{op} was refused: {code}, firmware code {internal:#04x}: {}", code.remedy())]
    Refused {
        /// The command.
        op: Opcode,
        /// Why.
        code: Code,
        /// The firmware's own code beside it; its values are not documented.
        internal: u8,
    },
    /// A reply or event says that it is longer than the buffer it was given.
    #[error("{op}: a reply of {len} bytes to a buffer of {room}: reset the function")]
    LongReply {
        /// The command.
        op: Opcode,
        /// Bytes the reply claims.
        len: usize,
        /// Bytes of the buffer.
        room: usize,
    },
    /// A reply ends before something it should hold.
    #[error("{op}: the reply has {len} bytes, {what} needs {needed}: update the card's firmware")]
    ShortReply {
        /// The command.
        op: Opcode,
        /// What is missing.
        what: &'static str,
        /// Bytes of the reply.
        len: usize,
        /// Bytes it would need.
        needed: usize,
    },
    /// A field of a reply makes no sense.
    #[error("{op}: the reply is not usable ({what} is {value:#x}): reset the function")]
    BadReply {
        /// The command.
        op: Opcode,
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// A queue's head register points outside the queue.
    #[error("the head of the {queue} is {head}, it has {entries} entries: reset the function")]
    BadHead {
        /// The queue.
        queue: &'static str,
        /// The register.
        head: u32,
        /// Entries of the queue.
        entries: u16,
    },
    /// A queue's address register does not hold what was written.
    #[error(
        "the address register of the {queue} reads {read:#x} after {written:#x} was written: check that the function's BAR is mapped and its bus mastering is on"
    )]
    NotProgrammed {
        /// The queue.
        queue: &'static str,
        /// Written.
        written: u32,
        /// Read.
        read: u32,
    },
    /// The queue is no longer on: the function was reset.
    #[error(
        "the {queue} is off (length register {len:#x}): the function was reset, bring it up again"
    )]
    QueueOff {
        /// The queue.
        queue: &'static str,
        /// Its length register.
        len: u32,
    },
    /// An earlier command timed out and has not been answered since.
    #[error("{op} was never answered, so no command can follow it: reset the function")]
    Unanswered {
        /// The command that timed out.
        op: Opcode,
    },
    /// A command timed out and the queue reports a critical firmware error. A
    /// function that may not read memory cannot even read the command `[inf critical_bus_master]`.
    #[error(
        "{op}: the firmware reports a critical error: see that the function is a bus master (PCI command register); power-cycle the card, and update its firmware if it happens again"
    )]
    CriticalFirmware {
        /// The command.
        op: Opcode,
    },
    /// A command's data is larger than a buffer. Nothing was sent.
    #[error("{op}: {len} bytes are more than the {room} of a buffer")]
    TooLong {
        /// The command.
        op: Opcode,
        /// Bytes to send.
        len: usize,
        /// Bytes of a buffer.
        room: usize,
    },
    /// An argument does not fit the field that carries it. Nothing was sent.
    #[error("{what} is {value:#x}, but at most {limit:#x} fits")]
    OutOfRange {
        /// The field.
        what: &'static str,
        /// The value given.
        value: u64,
        /// The greatest value that fits.
        limit: u64,
    },
    /// The firmware speaks a newer major version of the AdminQ interface.
    #[error(
        "the firmware's AdminQ interface is {major}.{minor}, this driver knows 1.x: update this driver, or go back to an older firmware"
    )]
    ApiTooNew {
        /// Major version.
        major: u8,
        /// Minor version.
        minor: u8,
    },
    /// The firmware runs in recovery mode.
    #[error(
        "the card's firmware is in recovery mode (GL_MNG_FWSM is {fwsm:#010x}): reflash it with the vendor's update tool, then power-cycle"
    )]
    RecoveryMode {
        /// GL_MNG_FWSM.
        fwsm: u32,
    },
    /// Capability 0x0051 is absent or 0.
    #[error(
        "the firmware offers no RDMA on this function (capability 0x51): enable RDMA for the port in the card's NVM settings; cards with more than four ports have none (erratum E14)"
    )]
    NoRdma,
    /// There is no package on the card and none was given.
    #[error(
        "safe mode: the card has no DDP package, and without one there is no RDMA: give the package file (usually intel/ice/ddp/ice.pkg in the firmware folder)"
    )]
    NoPackage,
    /// The global configuration lock says that the card is configured, but no package is on it:
    /// an earlier download failed, or a driver gave the lock back without one.
    #[error("safe mode: the card has no DDP package: {}", UNTIL_CORE_RESET)]
    ConfiguredWithoutPackage,
    /// The package file cannot be used.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// Another function loaded a package that this driver cannot work with.
    #[error(
        "the card runs DDP package {found}, this driver needs 1.3: reset the card (`e810 up --reset-card`; another function loaded it), then give a package of version 1.3"
    )]
    ActivePackage {
        /// The active package.
        found: PackageVersion,
    },
    /// The firmware is older than the package.
    #[error(
        "the package needs a firmware for package format {needed}, the card's NVM has {found}: update the card's firmware, or use an older package"
    )]
    FirmwareTooOld {
        /// Format of the package's segment.
        needed: PackageVersion,
        /// Format of the NVM's package.
        found: PackageVersion,
    },
    /// The firmware refused a part of the package.
    #[error(
        "the package was refused at buffer {hunk}: {code}, at offset {offset}, detail {detail:#x}: {}",
        code.remedy()
    )]
    PackageRefused {
        /// Number of the buffer, in the order of sending, from 0.
        hunk: u32,
        /// Why.
        code: Code,
        /// Offset in the buffer.
        offset: u32,
        /// The firmware's detail; not documented.
        detail: u32,
    },
    /// A lock was not granted in time.
    #[error(
        "{what} is held by another function and was not given up within {limit_ms} ms: try again"
    )]
    Locked {
        /// The lock.
        what: &'static str,
        /// How long was waited, in ms.
        limit_ms: u32,
    },
    /// The scheduler tree has no node for the traffic class.
    #[error(
        "the port's scheduler tree has no traffic class {traffic_class}: map the user priority to another class"
    )]
    NoTrafficClass {
        /// The traffic class.
        traffic_class: u8,
    },
    /// The tree has no room for another queue set.
    #[error(
        "the scheduler tree has room for {limit} RDMA queue sets of this function: destroy some queue pairs"
    )]
    TreeFull {
        /// How many there can be.
        limit: u16,
    },
    /// The scheduler tree is not one this driver can build in.
    #[error("the scheduler tree is not usable ({what} is {value}): reset the card")]
    BadTree {
        /// What is wrong.
        what: &'static str,
        /// Its value.
        value: u32,
    },
    /// The port has no link.
    #[error("the port has no link: {}", reason.text())]
    NoLink {
        /// As far as it is known, why.
        reason: crate::link::NoLink,
    },
    /// A wait ended without an answer, or the device is gone.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// No memory for the device.
    #[error(transparent)]
    Dma(#[from] DmaError),
}

impl Error {
    /// Whether the firmware may still work on the command that failed. Memory that it was given
    /// must then not be freed.
    #[must_use]
    pub const fn leaves_command_open(&self) -> bool {
        matches!(
            self,
            Self::Wait(_)
                | Self::BadHead { .. }
                | Self::CriticalFirmware { .. }
                | Self::Unanswered { .. }
        )
    }

    /// Whether only a reset helps: the firmware has stopped, or the device is gone.
    #[must_use]
    pub const fn needs_reset(&self) -> bool {
        matches!(
            self,
            Self::CriticalFirmware { .. } | Self::Wait(WaitError::DeviceGone { .. })
        )
    }

    /// The code of a refusal.
    #[must_use]
    pub const fn refusal(&self) -> Option<Code> {
        match self {
            Self::Refused { code, .. } | Self::PackageRefused { code, .. } => Some(*code),
            _ => None,
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
    fn a_refusal_says_what_and_what_to_do() {
        let error = Error::Refused {
            op: Opcode::ADD_QUEUE_SET,
            code: Code::ENOSPC,
            internal: 0x1F,
        };
        assert_eq!(
            error.to_string(),
            "Add RDMA Queue Set (0x0c33) was refused: ENOSPC (16), firmware code 0x1f: \
             the table or the tree is full: other functions of the card may use it too"
        );
    }

    #[test]
    fn each_hopeless_state_is_one_line() {
        let lines = [
            Error::NoPackage,
            Error::NoRdma,
            Error::RecoveryMode { fwsm: 2 },
            Error::ApiTooNew { major: 2, minor: 0 },
            Error::NoLink {
                reason: crate::link::NoLink::NoMedia,
            },
        ];
        for error in lines {
            let text = error.to_string();
            assert!(!text.contains('\n') && text.contains(':'), "{text}");
        }
    }

    #[test]
    fn a_refusal_closes_its_command() {
        assert!(
            Error::CriticalFirmware {
                op: Opcode::ADD_VSI
            }
            .leaves_command_open()
        );
        assert!(!Error::NoRdma.leaves_command_open());
    }
}
