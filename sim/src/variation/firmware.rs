//! Choices about the firmware.

/// What Clear PXE Mode (0x0110) is answered with when the card has left PXE mode: since its last
/// core reset some function's driver has sent the command (field-evidence 3.1, 3.2).
///
/// EEXIST is what iPXE's driver for XL710 and E810 expects there; no log of an E810 shows it
/// `[inf pxe_cleared_again]`. Other drivers ignore the answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PxeClearedAgain {
    /// EEXIST.
    Exists,
    /// Done, as the first time.
    Done,
}

/// What the input mask of the switch block (GL_PREEXT_L2_PMASK0, GL_PREEXT_L2_PMASK1) is after a
/// reset of the card.
///
/// Not in the sources. Existing drivers write all ones whenever a package is active; one that works
/// without a package (iPXE) never does, and receives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SwitchInput {
    /// All zero: with a package, its rules match nothing.
    Closed,
    /// All ones.
    Open,
}

/// What Clear PF Configuration (0x02A4) does to the VSI that the firmware has for a function
/// (field-evidence 3.15): NITS (own_vsi). The driver that was seen to use that VSI does not
/// send the command.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OwnVsi {
    /// It stays.
    Stays,
    /// It is removed until the next reset of the function.
    Goes,
}

/// What becomes of the rules that name a VSI which is freed (0x0213). DPDK frees its VSI while its
/// promiscuous rules are in place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RulesOfVsi {
    /// They go with it.
    Go,
    /// They stay.
    Stay,
}

/// Longest frame that a port takes after a reset of the card, until 0x0603 says another:
/// NITS (frame_at_start), but that the command is needed for frames longer than the default
/// (control-path 9.3). Existing drivers send it at their start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FrameAtStart {
    /// That of an MTU of 1500, with a tag: 1522 bytes.
    Small,
    /// The longest that the MAC takes: 9728 bytes.
    Largest,
}

/// How many elements of the switch a reply to 0x0200 has: NITS (switch_pages). Existing drivers ask
/// for more until the reply says that there are none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SwitchPages {
    /// As many as the buffer holds.
    Full,
    /// One.
    OneElement,
}

/// What the last node of the default branch in the reply to 0x0400 is: NITS (default_branch).
///
/// iPXE, which is known to work on silicon, puts its transmit queue below that node, whatever its
/// type; Linux' ice removes it if it is a leaf (lan-path 19, row 6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DefaultBranch {
    /// A queue group, without children.
    Group,
    /// A leaf.
    Leaf,
}

/// Whether functions that do not hold the global configuration lock are refused what its holder is
/// (field-evidence 3.6: "most AdminQ commands"; of whom is NITS (others_in_download)).
///
/// Existing drivers keep the functions of one machine from asking then.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OthersInDownload {
    /// They are.
    Refused,
    /// They are served.
    Served,
}

/// What commands are refused with while the global configuration lock is held:
/// NITS (refused_in_download).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RefusedInDownload {
    /// EBUSY.
    Ebusy,
    /// EAGAIN.
    Eagain,
}

/// State of the global configuration lock when its holder has not released it in time:
/// NITS (lock_runs_out).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockRunsOut {
    /// As released: it is not granted again.
    Done,
    /// As if it had never been granted.
    Free,
}

/// The global configuration lock after its holder has released it without a download
/// (field-evidence 3.5 `[inf lock_released]`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockReleased {
    /// The configuration counts as done: it is not granted again.
    Done,
    /// It is granted again.
    Free,
}

/// The registers of the AdminQ after a reset of the function: their reset source is EMPR (control-path
/// 9.1), so a reset of the function leaves them `[inf adminq_registers]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AdminqRegisters {
    /// They stay.
    Stay,
    /// They are cleared.
    Cleared,
}

/// What the switch block's recipes see of a frame while their input mask is 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SwitchMask {
    /// Nothing, so that no rule matches `[inf switch_mask_hides]`.
    Hides,
    /// All: the mask is for others.
    Passes,
}
