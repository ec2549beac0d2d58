//! Choices about multicast groups.

/// Who gets what a member sends to its group with DOLOOPBACK (control-path 4.14).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GroupEcho {
    /// The function's other members.
    Others,
    /// The sender as well.
    Sender,
}

/// Use of the queue set that commands on a group name (QS_HANDLE, control-path 4.14).
///
/// Existing drivers keep that of the first member and name it in every command; what the card does
/// with it is in no source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GroupQueueSet {
    /// The copies for the members go through it: members of a group whose queue set the scheduler
    /// does not know receive nothing.
    Needed,
    /// Nothing.
    Ignored,
}
