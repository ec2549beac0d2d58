//! Verbs features that the E810 does not implement.

/// A verbs feature that the E810, or RoCEv2 on it, does not implement. The text of
/// each says why and what to use instead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Unsupported {
    /// Unreliable connections (data-path 5.4).
    #[error("the E810 has no unreliable connections (UC): use RC or UD")]
    Uc,
    /// Raw packet queue pairs (data-path 5.4).
    #[error("the E810's RDMA engine has no raw packet queue pairs: that is the LAN side's work")]
    RawPacket,
    /// Extended reliable connections (data-path 5.4).
    #[error("the E810 has no extended reliable connections (XRC): use RC")]
    Xrc,
    /// Shared receive queues (data-path 2).
    #[error(
        "the E810 has no shared receive queues (a later generation has): give each queue pair receives of its own"
    )]
    Srq,
    /// Atomic operations (data-path 1.5).
    #[error(
        "the E810 has no atomic operations (a later generation has): use SEND, or RDMA READ and WRITE"
    )]
    Atomics,
    /// An alternate path and its migration.
    #[error("the E810's context has no alternate path: connect again over another path")]
    AlternatePath,
    /// Another size of a queue pair's queues.
    #[error(
        "the queues of a queue pair cannot be resized (IBV_QP_CAP): make a new queue pair with the sizes needed"
    )]
    QueueResize,
    /// A rate limit on one queue pair.
    #[error("the E810 has no rate limit of a queue pair")]
    RateLimit,
    /// Memory windows (data-path 1.7): their formats are known, but there is no evidence that
    /// they work on this generation.
    #[error(
        "memory windows are not offered: existing drivers do not use them on this generation; Quirks::memory_windows asks for them all the same"
    )]
    MemoryWindows,
    /// A send queue that continues after an error.
    #[error(
        "the E810 stops a whole queue pair after an error, so its send queue does not go on: reset the queue pair"
    )]
    SqeRecovery,
}
