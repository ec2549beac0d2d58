//! The operation that carries a message.

use clap::ValueEnum;

/// An RDMA operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Op {
    /// SEND into a posted receive, answered by a SEND.
    Send,
    /// RDMA WRITE into the peer's memory, checked there, written back.
    Write,
    /// RDMA READ of the peer's memory.
    Read,
}

impl Op {
    /// The name used on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

/// What carries a message of `pingpong`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PingpongOp {
    /// SEND into a posted receive, answered by a SEND.
    Send,
    /// RDMA WRITE into the peer's memory, checked there, written back.
    Write,
    /// RDMA READ of the peer's memory.
    Read,
    /// As `send`, and each SEND invalidates a key that its receiver has made for it.
    SendInv,
}

impl PingpongOp {
    /// The name used on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => Op::Send.name(),
            Self::Write => Op::Write.name(),
            Self::Read => Op::Read.name(),
            Self::SendInv => "send-inv",
        }
    }
}
