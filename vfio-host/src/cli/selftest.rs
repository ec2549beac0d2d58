//! Arguments of `e810 selftest`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use e810_backends::spec::DeviceSpec;
use e810_selftest::Risk;

use super::file::{checked, output};
use super::{BackendArgs, StartArgs, device};

/// Arguments of `e810 selftest`.
#[derive(Args, Debug, Clone)]
pub struct SelftestArgs {
    /// The function: `sim`, `vfio-user:PATH`, or a PCI address like 3b:00.0 [default:
    /// E810_DEVICE, else sim].
    #[arg(short, long, value_name = "SPEC", value_parser = checked(device::spec))]
    pub device: Option<DeviceSpec>,
    /// Perform only these experiments; `--list` has their names.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// What experiments may do to others.
    ///
    /// A reset of the card resets all of its functions and removes the package. It is refused while
    /// another function of the same slot is bound to a kernel driver or in use.
    #[arg(long, value_enum, default_value = "none")]
    pub risk: RiskArg,
    /// Leave these experiments out.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub except: Vec<String>,
    /// List the experiments, and perform none.
    #[arg(long, conflicts_with_all = ["device", "out", "force"])]
    pub list: bool,
    /// Write what is found to FILE, which must not exist, line by line: after a crash of the machine,
    /// the last line has the experiment.
    #[arg(short, long, value_name = "FILE", value_parser = checked(output))]
    pub out: Option<PathBuf>,
    /// Accept a function of an unknown Intel Ethernet id; reset the card even if its other
    /// functions are in use.
    #[arg(long)]
    pub force: bool,
    /// How functions are started.
    #[command(flatten)]
    pub start: StartArgs,
    /// How functions behind a backend are used.
    #[command(flatten)]
    pub backend: BackendArgs,
}

/// A risk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum RiskArg {
    /// Nothing: they work with this function alone.
    None,
    /// The card may be reset, with all of its functions.
    Card,
}

impl From<RiskArg> for Risk {
    fn from(risk: RiskArg) -> Self {
        match risk {
            RiskArg::None => Self::None,
            RiskArg::Card => Self::ResetsCard,
        }
    }
}
