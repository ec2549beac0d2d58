//! What can go wrong on the data path.

use e810_types::{QpState, QpType, WorkQueue};

use crate::state::TransitionError;

/// Why a work request was not posted. Nothing of it is in the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PostError {
    /// Not enough room; poll the completion queue and post again.
    #[error("{queue} full: {needed} entries needed, {free} free; poll its CQ and post again")]
    Full {
        /// Which queue.
        queue: WorkQueue,
        /// Quanta (send, padding included) or slots (receive) needed.
        needed: u32,
        /// Of which so many are free.
        free: u32,
    },
    /// More SGEs (or inline pieces) than the QP was created with.
    #[error("{got} SGEs, the {queue} was created for {limit}")]
    TooManySges {
        /// Which queue.
        queue: WorkQueue,
        /// SGEs of the request.
        got: usize,
        /// What the queue takes.
        limit: u32,
    },
    /// More inline bytes than the QP was created with.
    #[error("{got} inline bytes, the QP was created for {limit}")]
    InlineTooLong {
        /// Bytes of the request.
        got: usize,
        /// What the queue takes.
        limit: u32,
    },
    /// An SGE of 2^31 bytes or more: the WQE has 31 bits for a length
    /// (data-path 1.6).
    #[error("SGE {index} has {length} bytes, an SGE has at most {limit}")]
    SgeTooLong {
        /// Position in the list.
        index: u32,
        /// Its bytes.
        length: u32,
        /// The greatest length.
        limit: u32,
    },
    /// A message longer than the device sends (data-path 5.1).
    #[error("message of {bytes} bytes, the device sends at most {limit}")]
    MessageTooLong {
        /// Sum of the SGEs.
        bytes: u64,
        /// The greatest length.
        limit: u32,
    },
    /// The QP's state does not allow it.
    #[error("{queue} takes no requests in state {state}")]
    WrongState {
        /// Which queue.
        queue: WorkQueue,
        /// State of the QP.
        state: QpState,
    },
    /// Not an operation of this kind of QP.
    #[error("{op} is not an operation of a {qp_type} QP")]
    WrongOp {
        /// Name of the operation.
        op: &'static str,
        /// Kind of QP.
        qp_type: QpType,
    },
    /// This generation does not offer the operation.
    #[error("{op} is not offered by this generation; the QP was not opened for it")]
    NotOffered {
        /// Name of the operation.
        op: &'static str,
    },
    /// There is no address handle of that number on the device.
    #[error("address handle {ah}: the device has been given room for {limit}")]
    NoSuchAh {
        /// The number.
        ah: u32,
        /// They are below this.
        limit: u32,
    },
    /// A number does not fit its field.
    #[error("{field} is {value}, at most {limit} fits")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// What was given.
        value: u64,
        /// The greatest value.
        limit: u64,
    },
    /// The queue's memory is smaller than stated; cannot happen with a queue that its constructor
    /// accepted.
    #[error("the memory of the {queue} is not what the queue was opened with")]
    Memory {
        /// Which queue.
        queue: WorkQueue,
    },
}

/// A list of requests that was posted only in part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[error("request {posted} of the list: {error}")]
#[doc(alias = "bad_wr")]
pub struct Refused {
    /// Requests that were posted: those before the refused one, which has this
    /// index.
    pub posted: usize,
    /// Why it was refused.
    pub error: PostError,
}

/// A size that the device, or the memory given, does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[error("{field} is {value}, {bound}")]
pub struct SizeError {
    /// Name of the attribute.
    pub field: &'static str,
    /// What was asked for.
    pub value: u64,
    /// What is possible.
    pub bound: Bound,
}

/// What a [`SizeError`] ran into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Bound {
    /// At most this.
    AtMost(u64),
    /// At least this.
    AtLeast(u64),
    /// Exactly this.
    Exactly(u64),
    /// A power of two.
    PowerOfTwo,
}

impl core::fmt::Display for Bound {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "at most {limit} is possible"),
            Self::AtLeast(limit) => write!(f, "at least {limit} is needed"),
            Self::Exactly(value) => write!(f, "it has to be {value}"),
            Self::PowerOfTwo => f.write_str("it has to be a power of two"),
        }
    }
}

/// Why a slot of a QP or CQ could not be opened, changed or closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SlotError {
    /// No such id in the table.
    #[error("{object} id {id} is not in the table of {limit}")]
    NoSuchId {
        /// "QP" or "CQ".
        object: &'static str,
        /// The id.
        id: u32,
        /// Ids of the table.
        limit: u32,
    },
    /// The id is in use, or its last user's completions may still be in a CQ.
    #[error("{object} id {id} is in use, or a CQ was not polled since its QP was destroyed")]
    Busy {
        /// "QP" or "CQ".
        object: &'static str,
        /// The id.
        id: u32,
    },
    /// The object was destroyed; its id may belong to another one now.
    #[error("{object} id {id}, generation {generation}, does not exist any more")]
    Gone {
        /// "QP" or "CQ".
        object: &'static str,
        /// The id.
        id: u32,
        /// Generation of the handle.
        generation: u32,
    },
    /// QPs still complete into the CQ.
    #[error("CQ {id} still serves {queues} work queues; destroy their QPs first")]
    InUse {
        /// The CQ.
        id: u32,
        /// Work queues that refer to it.
        queues: u64,
    },
    /// More events were acknowledged than were taken.
    #[error(
        "{events} events of CQ {id} were acknowledged, {taken} were outstanding: acknowledge each event once"
    )]
    NotTaken {
        /// The CQ.
        id: u32,
        /// Events to acknowledge.
        events: u32,
        /// Events taken and not yet acknowledged.
        taken: u32,
    },
    /// The channel is closed.
    #[error("completion channel {channel} is closed")]
    NoChannel {
        /// Its index.
        channel: u32,
    },
    /// CQs are still on the channel.
    #[error("completion channel {channel} still serves {cqs} CQs: destroy them first")]
    ChannelInUse {
        /// Its index.
        channel: u32,
        /// How many.
        cqs: u64,
    },
    /// A CQ is polled in another table of slots than the one that has the QP's queues.
    #[error("CQ {cq} and its QPs have their queues in different processes")]
    OtherTable {
        /// The CQ.
        cq: u32,
    },
    /// No tracker space for a QP of that size.
    #[error(
        "no tracker space for {words} words; raise the configuration's tracker words per QP or its QPs, or make the QP smaller"
    )]
    NoSpace {
        /// 64-bit words needed.
        words: u64,
    },
    /// The device reported the QP as failed: it can only go to ERR or RESET.
    #[error("QP {id} failed: it can only be moved to ERR")]
    Failed {
        /// The QP.
        id: u32,
    },
    /// The table's memory is smaller than its layout.
    #[error("a slot table of {needed} words was given {given}")]
    Memory {
        /// Words of the layout.
        needed: usize,
        /// Words given.
        given: usize,
    },
}

/// Any error of this crate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error {
    /// Posting.
    #[error(transparent)]
    Post(#[from] PostError),
    /// Posting a list.
    #[error(transparent)]
    List(#[from] Refused),
    /// Sizes.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// Slots.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// State changes.
    #[error(transparent)]
    Transition(#[from] TransitionError),
}
