//! What can go wrong in this crate.

use e810_hal::{DmaError, Ns, WaitError};

/// The rings of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Ring {
    /// Frames to be sent.
    Transmit,
    /// Buffers for frames to come.
    Receive,
}

impl core::fmt::Display for Ring {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Transmit => "transmit",
            Self::Receive => "receive",
        })
    }
}

/// An error of the LAN queues: what happened, to which object, what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error {
    /// A ring cannot have that many descriptors (lan-path 1.4).
    #[error(
        "a LAN {ring} ring has 64 to 8160 descriptors, a multiple of 32, not {entries}: ask for such a number"
    )]
    Entries {
        /// The ring.
        ring: Ring,
        /// Descriptors asked for.
        entries: u16,
    },
    /// An MTU that frames of the port cannot have.
    #[error("the MTU of LAN queues is {mtu}, allowed is {min} to {max}")]
    Mtu {
        /// MTU asked for, in bytes.
        mtu: u16,
        /// The least.
        min: u16,
        /// The greatest.
        max: u16,
    },
    /// A field of a queue's context that does not fit. Nothing was written.
    #[error("{what} of a LAN queue is {value:#x}, which the device does not take")]
    Context {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// A frame is shorter than an Ethernet header or longer than the MTU allows.
    /// Nothing was sent.
    #[error("a frame has {bytes} bytes, allowed are {min} to {max} without FCS")]
    FrameLength {
        /// Bytes of the frame.
        bytes: usize,
        /// The least.
        min: usize,
        /// The most.
        max: usize,
    },
    /// All descriptors are in use. Nothing was sent.
    #[error(
        "all {frames} places of the LAN transmit ring are in use: try again when frames have left; without a link none does"
    )]
    Full {
        /// Frames that wait.
        frames: u16,
    },
    /// All descriptors are in use, and none was done for [`STALLED_AFTER`](crate::STALLED_AFTER).
    /// Nothing was sent.
    #[error(
        "none of the {frames} frames in the LAN transmit ring has left for {limit}: the queue hangs; close the LAN queues and open them again, or start the function anew"
    )]
    Stalled {
        /// Frames that wait.
        frames: u16,
        /// How long it has been full at least.
        limit: Ns,
    },
    /// A wait ended without an answer, or the device is gone.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// No memory for the device.
    #[error(transparent)]
    Dma(#[from] DmaError),
}

/// The result of everything in this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;
