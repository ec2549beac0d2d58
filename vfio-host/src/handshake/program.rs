//! Which program is at the other end.

use clap::ValueEnum;

/// A program that `--listen` and `--connect` meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Program {
    /// This one.
    #[default]
    E810,
    /// The one of that name of libibverbs, unmodified, on any RDMA device.
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
}
