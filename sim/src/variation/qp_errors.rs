//! Choices about QPs that enter the error state.

/// FLUSH_WQES of queues without outstanding requests. The code is in the sources (control-path
/// 4.5), and Linux takes both answers; when a card gives which is NITS (nothing_to_flush).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NothingToFlush {
    /// It fails with 0xFFFF/0x8006, "flush, no WQE pending".
    Refused,
    /// It is done, with minor code 0.
    Done,
}

/// Which queue pairs refuse MODIFY_QP to ERROR with 0xFFFF/0x8002, "invalid state". The code is in
/// the sources (control-path 4.5); when a card gives it is not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorRefused {
    /// Those that an earlier MODIFY_QP moved to ERROR. An idle one goes there: the kernel's users
    /// drain queue pairs of connections that were refused, and warn when that fails. So does one
    /// that the device stopped by itself \[inf error_refused: Linux flushes a failed queue pair
    /// only when this command worked\].
    Again,
    /// Idle ones as well.
    Known,
    /// Also those that the device stopped by itself.
    Always,
    /// None.
    Never,
}
