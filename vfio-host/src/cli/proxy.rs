//! Arguments of `e810 proxy`.

use std::path::PathBuf;

use clap::Args;
use e810_backends::spec::DeviceSpec;

use super::device::{socket_path, spec};
use super::file::{checked, output};

/// Arguments of `e810 proxy`.
#[derive(Args, Debug, Clone)]
pub struct ProxyArgs {
    /// The function that everything is passed on to: a PCI address, vfio-user:PATH, or sim
    /// [default: E810_DEVICE, else sim].
    #[arg(long, value_name = "FUNCTION", value_parser = checked(spec))]
    pub device: Option<DeviceSpec>,
    /// The socket where a driver, or the virtual machine that it is in, finds the function.
    #[arg(long, value_name = "PATH", value_parser = checked(socket_path))]
    pub socket: PathBuf,
    /// Record what driver and device do in FILE, for `e810 trace`.
    ///
    /// The recording has each access to registers and configuration space, each command with its
    /// buffers, each work request and each queue entry, with times, and no payload. An existing file
    /// is overwritten; a recording ends at 256 MiB.
    #[arg(long, value_name = "FILE", value_parser = checked(output))]
    pub trace: PathBuf,
    /// Also pass on commands that erase, write or activate the card's flash, or write to a module.
    ///
    /// Without it, the firmware gets an opcode that it does not know instead, and the driver an
    /// error.
    #[arg(long)]
    pub allow_nvm: bool,
}
