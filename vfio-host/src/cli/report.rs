//! Arguments of `e810 report`.

use std::path::PathBuf;

use clap::Args;
use e810_backends::spec::DeviceSpec;

use super::BackendArgs;
use super::number::number;

/// Arguments of `e810 report`.
#[derive(Args, Debug, Clone)]
pub struct ReportArgs {
    /// The function: `sim`, `vfio-user:PATH` or `vfio:BDF` [default: E810_DEVICE, else sim].
    #[arg(short, long, value_name = "SPEC")]
    pub device: Option<DeviceSpec>,
    /// Only look: level 0.
    ///
    /// Nothing is written to the function or the machine, and the function keeps the driver that it has. Only this
    /// level sees what that driver or the firmware left.
    #[arg(long, conflicts_with = "level")]
    pub passive: bool,
    /// How far to go: 0 looks, 1 opens the function, which resets it, and reads its registers, 2 asks the firmware.
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::<u8>(0, 2))]
    pub level: u8,
    /// Write the report to FILE, a line before each access, so that a machine that dies tells which one it was.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write FILE anew, and leave out the access that the report in it ended at.
    #[arg(long, requires = "out")]
    pub skip_after_crash: bool,
    /// Keep Ethernet addresses and serial numbers in.
    #[arg(long)]
    pub identities: bool,
    /// How functions behind a backend are used.
    #[command(flatten)]
    pub backend: BackendArgs,
}

impl ReportArgs {
    /// The highest level.
    #[must_use]
    pub const fn highest(&self) -> u8 {
        if self.passive { 0 } else { self.level }
    }
}
