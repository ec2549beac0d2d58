//! Choices about CQP commands and HMC memory.

/// What QUERY_FPM_VAL has in the word of SRQ, which drivers of this generation do not read
/// (control-path 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnreadWords {
    /// No size of an object, though its power fits 64 bits, and no count.
    Anything,
    /// What the profile says.
    Limits,
}

/// The maxima of the objects whose counts drivers compute from the number of queue pairs and
/// compare with nothing (HTE, XF, TIMER, HDR; control-path 6.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DerivedMaxima {
    /// Those that a commit is held against.
    Said,
    /// 0: a commit takes more all the same.
    Zero,
}

/// Which queue-set handle WORK_SCHED_NODE returns for a new leaf. No source says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QueueSetHandles {
    /// One that no leaf had for a long time.
    Next,
    /// The lowest that no leaf has: that of a leaf which was just deleted.
    Lowest,
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
