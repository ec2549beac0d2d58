//! Arguments of `e810 up`.

use clap::Args;
use e810_backends::spec::DeviceSpec;

use super::capture::CaptureArgs;
use super::device;
use super::file::checked;
use super::{BackendArgs, StartArgs};

/// Arguments of `e810 up`.
#[derive(Args, Debug, Clone)]
pub struct UpArgs {
    /// The function: `sim`, `vfio-user:PATH`, or a PCI address like 3b:00.0 [default:
    /// E810_DEVICE, else sim].
    #[arg(short, long, value_name = "SPEC", value_parser = checked(device::spec))]
    pub device: Option<DeviceSpec>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Print the limits of the card as a Rust expression instead, for a program that computes its
    /// memory as a constant (`Config::dma_bytes`).
    #[arg(long, conflicts_with = "json")]
    pub card: bool,
    /// Reset the whole card first (a core reset), for when no function can load a package any more.
    ///
    /// This resets all functions of the card and removes the package. It is refused while another
    /// function of the same slot is bound to a kernel driver or in use; use by a virtual machine or
    /// another host is not detected.
    #[arg(long)]
    pub reset_card: bool,
    /// Continue with a function of an unknown Intel Ethernet id; reset the card even if its other
    /// functions are in use.
    #[arg(long)]
    pub force: bool,
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
