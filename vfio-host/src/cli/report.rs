//! Arguments of `e810 report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use e810_backends::spec::DeviceSpec;
use e810_report::resets::Kind;

use super::BackendArgs;
use super::device;
use super::file::{checked, output};
use super::number::number;

/// Arguments of `e810 report`.
#[derive(Args, Debug, Clone)]
pub struct ReportArgs {
    /// The function: `sim`, `vfio-user:PATH`, or a PCI address like 3b:00.0 [default:
    /// E810_DEVICE, else sim].
    #[arg(short, long, value_name = "SPEC", value_parser = checked(device::spec))]
    pub device: Option<DeviceSpec>,
    /// Only look (level 0).
    ///
    /// This writes nothing to the function or the machine, and the function keeps its driver. Only
    /// this level shows the state that the driver or the firmware left.
    #[arg(long, conflicts_with = "level")]
    pub passive: bool,
    /// How far to go: 0 looks, 1 opens the function (which resets it) and reads its registers, 2
    /// queries the firmware, 3 queries the RDMA engine.
    #[arg(long, value_name = "N", default_value = "3", value_parser = number::<u8>(0, 3))]
    pub level: u8,
    /// Also do these resets, in this order, and read the registers after each (level 4): the
    /// function (pfr), or the whole card (corer, globr, empr).
    ///
    /// A reset of the card resets all of its functions and removes the package. It is refused while
    /// another function of the same slot is bound to a kernel driver or in use.
    #[arg(
        long,
        value_name = "KINDS",
        value_enum,
        value_delimiter = ',',
        conflicts_with = "passive"
    )]
    pub reset: Vec<ResetArg>,
    /// Go above level 0 with a function of an unknown Intel Ethernet id; reset the card even if its
    /// other functions are in use.
    ///
    /// Level 0 does not read the registers of such a function while its driver has it.
    #[arg(long, conflicts_with = "passive")]
    pub force: bool,
    /// Write the report to FILE, with a line before each access: after a crash of the machine, the
    /// file shows which access it was.
    #[arg(short, long, value_name = "FILE", value_parser = checked(output))]
    pub out: Option<PathBuf>,
    /// Overwrite FILE, and skip the access at which the report in it ended.
    #[arg(long, requires = "out")]
    pub skip_after_crash: bool,
    /// Also print how this card differs from that of FILE, an earlier report.
    ///
    /// This compares registers after resets, answers, limits, and the configuration space except
    /// for what the host sets in it.
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,
    /// Also record the connections of the command that was started with `--monitor PATH`.
    ///
    /// With --passive, that command may have the function of this report.
    #[arg(long, value_name = "PATH", value_parser = checked(device::socket_path))]
    pub at: Option<PathBuf>,
    /// Keep Ethernet addresses, serial numbers and addresses of connections in the report.
    #[arg(long)]
    pub identities: bool,
    /// How functions behind a backend are used.
    #[command(flatten)]
    pub backend: BackendArgs,
}

/// A kind of reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ResetArg {
    /// The function.
    Pfr,
    /// The core of the card.
    Corer,
    /// The card with its ports.
    Globr,
    /// The card with its firmware.
    Empr,
}

impl From<ResetArg> for Kind {
    fn from(kind: ResetArg) -> Self {
        match kind {
            ResetArg::Pfr => Self::Pfr,
            ResetArg::Corer => Self::Corer,
            ResetArg::Globr => Self::Globr,
            ResetArg::Empr => Self::Empr,
        }
    }
}

impl ReportArgs {
    /// The highest level.
    #[must_use]
    pub fn highest(&self) -> u8 {
        match (self.passive, self.reset.is_empty()) {
            (true, _) => 0,
            (false, true) => self.level,
            (false, false) => 4,
        }
    }
}
