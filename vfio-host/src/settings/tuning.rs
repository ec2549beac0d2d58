//! The tuning of queue pairs.

use clap::ValueEnum;
use e810::Tuning;

/// The driver whose settings queue pairs get.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TuningArg {
    /// Linux' irdma, whether the port has flow control or not.
    Linux,
    /// Intel's own driver on a port without flow control.
    NoFlowControl,
    /// Intel's own driver on a port with flow control.
    FlowControl,
}

impl TuningArg {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::NoFlowControl => "no-flow-control",
            Self::FlowControl => "flow-control",
        }
    }

    /// The settings.
    #[must_use]
    pub const fn values(self) -> Tuning {
        match self {
            Self::Linux => Tuning::LINUX,
            Self::NoFlowControl => Tuning::WITHOUT_FLOW_CONTROL,
            Self::FlowControl => Tuning::WITH_FLOW_CONTROL,
        }
    }
}
