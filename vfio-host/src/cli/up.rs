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
    /// Print the limits of the card instead, as an expression of Rust: for a
    /// program that computes its memory as a constant (`Config::dma_bytes`).
    #[arg(long, conflicts_with = "json")]
    pub card: bool,
    /// Reset the whole card first (a core reset): the way out where no function can load a package
    /// any more.
    ///
    /// All functions of the card are reset, and the package is gone. Refused while another
    /// function of the same slot is bound to a kernel's driver or in use; functions that a
    /// virtual machine or another host has are not seen.
    #[arg(long)]
    pub reset_card: bool,
    /// Go on with a function of an unknown Intel Ethernet id; reset the card even if others use
    /// its functions.
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
