//! Choices about CQP commands and HMC memory.

/// What QUERY_FPM_VAL has in the word of SRQ is NITS (unread_words): drivers of this generation do
/// not read it (control-path 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnreadWords {
    /// No size of an object, though its power fits 64 bits, and no count.
    Anything,
    /// What the profile says.
    Limits,
}

/// The maxima of the objects whose counts drivers compute from the number of queue pairs and
/// compare with nothing (HTE, XF, TIMER, HDR; control-path 6.5). What a card has there is
/// NITS (derived_maxima).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DerivedMaxima {
    /// Those that a commit is held against.
    Said,
    /// 0: a commit takes more all the same.
    Zero,
}

/// Which queue-set handle WORK_SCHED_NODE returns for a new leaf: NITS (queue_set_handles).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QueueSetHandles {
    /// One that no leaf had for a long time.
    Next,
    /// The lowest that no leaf has: that of a leaf which was just deleted.
    Lowest,
}

/// MANAGE_ARP at an index that is valid. Linux' irdma deletes the entry first and takes another index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ArpAgain {
    /// The entry has the new address; what names it goes on with that.
    Replaced,
    /// It is refused.
    Refused,
}

/// WORK_SCHED_NODE of a VSI that the switch does not have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnknownVsi {
    /// It is refused.
    Refused,
    /// The node is made.
    Taken,
}

/// Memory windows: ALLOC_STAG without MR. Linux' irdma does not offer them on this generation any more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Windows {
    /// They are there.
    Work,
    /// The command is refused.
    Refused,
}

/// What the acknowledge time of a queue pair is by RTOMIN. No source has a unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AckTime {
    /// Proportional to it.
    Proportional,
    /// The same for each of its values.
    Fixed,
}

/// GL_RDPU_CNTRL \[15:10\] after a reset of the card: Intel's FreeBSD driver writes 3 there
/// (field-evidence 7). What a reset leaves there is NITS (ack_threshold).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AckThreshold {
    /// 0.
    Zero,
    /// 3.
    Three,
}

/// State of CQP_OP_ERR (PFPE_CQPTAIL) after the next successful command.
///
/// Existing drivers take the bit for the command they wait for, stop at the first error of their
/// start, and ignore errors during shutdown; so none depends on either.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpErr {
    /// It is cleared.
    Cleared,
    /// It stays until the CQP is created again.
    Stays,
}

/// The Control QP of a function that was reset and has no LAN side yet. Existing drivers make it after
/// the LAN side is up (control-path 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EngineAlone {
    /// It is made.
    Answers,
    /// Nothing happens.
    Silent,
}

/// The state of the engine's processors (GLPE_CPUSTATUS) right after a reset of the function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EngineStatus {
    /// They are ready.
    Ready,
    /// They start.
    Starts,
}

/// The completion event queue with the highest number below MAX_CEQS. Existing drivers make one fewer if
/// that is their limit `[inf last_ceq]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LastCeq {
    /// It is like the others.
    Usable,
    /// It is refused.
    Missing,
}

/// How many entries of a completion queue's ring can be outstanding. The indexes alone do not tell a full
/// ring from an empty one `[inf cq_full]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CqFull {
    /// All but one.
    OneFree,
    /// All.
    NoneFree,
}

/// The minor code of FLUSH_WQES that has flushed both queues: the sources have those for none of them and for
/// either one (control-path 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlushedBoth {
    /// Another one `[inf flushed_both]`.
    Another,
    /// 0.
    Zero,
}

/// How the objects of the host memory cache follow each other (control-path 6.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PackedObjects {
    /// Each begins at the next multiple of 512 bytes, in the order of the commit buffer
    /// `[inf packed_objects]`.
    Packed,
    /// Each begins in a segment of its own.
    Spread,
}

/// Whether VSIQF_PE_CTL1 shows that a VSI's filter in front of the engine is open (control-path 9.9).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FilterRegister {
    /// It does `[inf filter_register]`.
    Shows,
    /// It reads 0.
    Hides,
}
