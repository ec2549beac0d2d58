//! Arguments of `e810 stat`.

use clap::Args;
use e810_backends::spec::DeviceSpec;

use super::device;
use super::file::checked;
use super::{BackendArgs, StartArgs};

/// Arguments of `e810 stat`.
#[derive(Args, Debug, Clone)]
pub struct StatArgs {
    /// The function: `sim`, `vfio-user:PATH`, or a PCI address like 3b:00.0 [default: E810_DEVICE,
    /// else sim].
    ///
    /// The command brings the function up, so nobody else may be using it. To count messages, use
    /// `e810 pingpong --counters`.
    #[arg(short, long, value_name = "SPEC", value_parser = checked(device::spec))]
    pub device: Option<DeviceSpec>,
    /// Also show the limits of the device, by the names of `ibv_devinfo -v`.
    #[arg(short, long)]
    pub verbose: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// How the function is started.
    #[command(flatten)]
    pub start: StartArgs,
    /// How functions behind a backend are used.
    #[command(flatten)]
    pub backend: BackendArgs,
}
