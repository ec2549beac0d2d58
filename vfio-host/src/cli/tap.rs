//! Arguments of `e810 tap`.

use clap::Args;
use e810_backends::spec::DeviceSpec;

use super::address::interface_name;
use super::capture::CaptureArgs;
use super::device;
use super::file::checked;
use super::{BackendArgs, StartArgs};
use e810_node::address::OwnAddress;

/// Arguments of `e810 tap`.
#[derive(Args, Debug, Clone)]
pub struct TapArgs {
    /// The interface: created here and removed at the end, or a persistent TAP.
    #[arg(value_name = "NAME", value_parser = interface_name)]
    pub name: String,
    /// The function: `sim:wire=NAME`, `vfio-user:PATH`, or a PCI address like 3b:00.0 [default:
    /// E810_DEVICE].
    #[arg(short, long, value_name = "SPEC", value_parser = checked(device::spec))]
    pub device: Option<DeviceSpec>,
    /// IP addresses of the interface, separated by commas; others can be added while it exists.
    #[arg(long, value_name = "ADDR[/LEN],..", value_delimiter = ',')]
    pub ip: Vec<OwnAddress>,
    /// Print JSON objects, one per line, instead of text.
    #[arg(long)]
    pub json: bool,
    /// How the function is started.
    #[command(flatten)]
    pub start: StartArgs,
    /// How functions behind a backend are used.
    #[command(flatten)]
    pub backend: BackendArgs,
    /// Whether frames are recorded.
    #[command(flatten)]
    pub capture: CaptureArgs,
}
