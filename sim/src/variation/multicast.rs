//! Choices about multicast groups.

/// What the queue set is for that commands on a group name (QS_HANDLE, control-path 4.14).
///
/// Existing drivers keep that of the first member and name it in every command; what the card does with it is in no
/// source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GroupQueueSet {
    /// The copies for the members go through it: of a group whose queue set the scheduler does not know, nobody gets
    /// anything.
    Needed,
    /// Nothing.
    Ignored,
}
