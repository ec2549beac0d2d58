//! The program at the other end.

use clap::ValueEnum;

/// A program that can be at the other end of `--listen` and `--connect`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Program {
    /// This program.
    #[default]
    E810,
    /// The program of that name from libibverbs, unmodified, on any RDMA device.
    #[value(name = "ibv_rc_pingpong")]
    IbvRcPingpong,
}

impl Program {
    /// The name used on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::E810 => "e810",
            Self::IbvRcPingpong => "ibv_rc_pingpong",
        }
    }

    /// Default bytes and number of messages of another program (of `ibv_rc_pingpong` from
    /// rdma-core, `libibverbs/examples/rc_pingpong.c`); `None` for e810, whose commands have their
    /// own.
    #[must_use]
    pub const fn size_and_iterations(self) -> Option<(u32, u64)> {
        match self {
            Self::E810 => None,
            Self::IbvRcPingpong => Some((4096, 1000)),
        }
    }
}
