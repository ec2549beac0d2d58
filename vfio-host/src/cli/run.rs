//! Arguments of `e810 run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use e810_backends::spec::AddressedSpec;
use e810_hal::Ns;
use e810_sim_wire::WireName;

use super::device::socket_path;
use super::file::checked;
use super::number::{number, seconds};

/// Arguments of `e810 run`.
#[derive(Args, Debug, Clone)]
#[command(
    arg_required_else_help = true,
    override_usage = "e810 run [OPTIONS] [--] PROGRAM [ARGUMENT]..."
)]
pub struct RunArgs {
    /// A function, with its IP addresses after an `@`; can be repeated [default: E810_DEVICE, else
    /// the one of `e810 serve`, else simulated functions].
    ///
    /// Each process that uses libibverbs gets the first of them that no other process has, and
    /// keeps it until it ends. Simulated functions are told apart by wire=NAME and mac=MAC; of one
    /// without, each process gets its own. After the `@` come IP/LEN (without LEN, every address is on the
    /// link), gateway=IP, wait=SECONDS for a peer that does not answer [default: 3], tap=NAME and
    /// mtu=BYTES.
    #[arg(short, long, value_name = "SPEC[@IP,..]")]
    pub device: Vec<AddressedSpec>,
    /// The socket of `e810 serve`, whose function all processes share [default: E810_AT, else
    /// /run/e810/e810.sock, else $XDG_RUNTIME_DIR/e810.sock].
    ///
    /// Without a server at the default places, without --wait and without a device, the functions
    /// are simulated.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["device", "all", "functions", "wire", "ddp"], value_parser = checked(socket_path))]
    pub at: Option<PathBuf>,
    /// Wait for a server that is not there yet, for this long.
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["device", "all", "functions", "wire", "ddp"], value_parser = seconds)]
    pub wait: Option<Ns>,
    /// Give each process all functions instead of one.
    #[arg(long)]
    pub all: bool,
    /// Number of simulated functions, if no device is named [default: 8].
    #[arg(long, value_name = "N", conflicts_with = "device", value_parser = number::<u8>(1, 250))]
    pub functions: Option<u8>,
    /// The wire of the simulated functions [default: a wire of their own].
    ///
    /// Functions of other commands that name it are on the same wire: `e810 run --wire lab` twice,
    /// or `e810 pingpong --device sim:wire=lab`.
    #[arg(long, value_name = "NAME", conflicts_with = "device")]
    pub wire: Option<WireName>,
    /// The card's package (DDP) [default: E810_DDP, else from the firmware folders].
    #[arg(long, value_name = "FILE")]
    pub ddp: Option<PathBuf>,
    /// Load the library before the real one (LD_PRELOAD) instead of replacing it (LD_LIBRARY_PATH).
    ///
    /// The real library stays available, for programs that use other vendors' providers. Programs
    /// that load libibverbs.so.1 by name at run time then get the real one.
    #[arg(long)]
    pub preload: bool,
    /// Folder of the libraries [default: E810_LIBRARIES, else the folder of e810, or ../lib/e810
    /// from there].
    #[arg(long, value_name = "DIR")]
    pub libraries: Option<PathBuf>,
    /// Give the program a /dev/infiniband, which UCX needs, in a mount namespace of its own.
    ///
    /// It has links uverbs0 and so on to /dev/null, and /sys/class/infiniband lists the devices.
    /// This needs root or user namespaces.
    #[arg(long)]
    pub dev_infiniband: bool,
    /// Print the environment variables for a shell, and run nothing.
    #[arg(long, conflicts_with = "dev_infiniband")]
    pub print_env: bool,
    /// Do not print what was set up.
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments.
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        required_unless_present = "print_env"
    )]
    pub program: Vec<OsString>,
}
