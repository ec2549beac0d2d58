//! What can go wrong in this crate.

use crate::limits::QueueKind;

/// An error of the event queues: what happened, to which object, what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error {
    /// An event queue cannot have that many entries (control-path 7.7).
    #[error(
        "the {queue} can have 1 to {max} entries, not {entries}: ask for a count in that range"
    )]
    Entries {
        /// The queue.
        queue: QueueKind,
        /// Entries asked for.
        entries: u32,
        /// The most it can have.
        max: u32,
    },
    /// The memory is too short for the queue.
    #[error(
        "{queue} memory has {bytes} bytes, its entries need {needed}: allocate what its entry count's layout() says"
    )]
    Memory {
        /// The queue.
        queue: QueueKind,
        /// Bytes there are.
        bytes: usize,
        /// Bytes needed.
        needed: usize,
    },
    /// Fewer interrupt vectors than the one that everything can share.
    #[error(
        "no interrupt vector was granted: free vectors of the function, or raise the count its MSI-X capability offers"
    )]
    NoVectors,
    /// The device, or the caller, has no completion event queue at all.
    #[error(
        "no completion event queue: {wanted} wanted, the device has {device}: ask for at least one, and check MAX_CEQS of the FPM query"
    )]
    NoCeqs {
        /// CEQs the caller wants.
        wanted: u16,
        /// CEQs the device has.
        device: u32,
    },
    /// An interrupt interval the register cannot hold (control-path 2.5).
    #[error("an interrupt interval is at most {max} µs, not {us}: choose a smaller one")]
    Interval {
        /// Interval asked for, in µs.
        us: u32,
        /// The longest one, in µs.
        max: u32,
    },
    /// The device ran out of AEQ entries; events are lost.
    #[error(
        "the asynchronous event queue overflowed and events are lost: reset the function, then create the AEQ with more entries"
    )]
    AeqOverflow,
}

/// The result of everything in this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;
