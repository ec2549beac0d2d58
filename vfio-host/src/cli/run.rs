//! Arguments of `e810 run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use e810_backends::spec::AddressedSpec;
use e810_sim_wire::WireName;

use super::number::number;

/// Arguments of `e810 run`.
#[derive(Args, Debug, Clone)]
#[command(
    arg_required_else_help = true,
    override_usage = "e810 run [OPTIONS] [--] PROGRAM [ARGUMENT]..."
)]
pub struct RunArgs {
    /// A function, any number of them, each with its IP addresses behind an `@` [default:
    /// E810_DEVICE, else simulated ones].
    ///
    /// Each process that uses libibverbs gets the first of them that no other process has, and
    /// keeps it until it ends. Behind the `@` go IP/LEN with its network (without one every address
    /// is on the link), gateway=IP, wait=SECONDS for a peer that does not say where it is [default:
    /// 3], and tap=NAME.
    #[arg(short, long, value_name = "SPEC[@IP,..]")]
    pub device: Vec<AddressedSpec>,
    /// Give each process all functions, not one of them.
    #[arg(long)]
    pub all: bool,
    /// How many simulated functions there are, where no device is named [default: 8].
    #[arg(long, value_name = "N", conflicts_with = "device", value_parser = number::<u8>(1, 250))]
    pub functions: Option<u8>,
    /// The wire that simulated functions are on [default: one of their own].
    ///
    /// Functions of other commands that name it are on it, too: `e810 run --wire lab` twice, or
    /// `e810 pingpong --device sim:wire=lab`.
    #[arg(long, value_name = "NAME", conflicts_with = "device")]
    pub wire: Option<WireName>,
    /// The card's package (DDP) [default: E810_DDP, else that of the firmware folders].
    #[arg(long, value_name = "FILE")]
    pub ddp: Option<PathBuf>,
    /// Put the library before the real one (LD_PRELOAD), not in its place (LD_LIBRARY_PATH).
    ///
    /// The real library stays behind it, for programs with providers of others. Programs that load
    /// libibverbs.so.1 by its name while they run get the real one then.
    #[arg(long)]
    pub preload: bool,
    /// Where the libraries are [default: E810_LIBRARIES, else beside e810, or ../lib/e810 from
    /// there].
    #[arg(long, value_name = "DIR")]
    pub libraries: Option<PathBuf>,
    /// Give the program a /dev/infiniband, in a mount namespace of its own, as UCX wants it.
    ///
    /// It has links uverbs0 and so on to /dev/null, and /sys/class/infiniband has the devices. That
    /// takes root, or user namespaces.
    #[arg(long)]
    pub dev_infiniband: bool,
    /// Print the variables for a shell, and run nothing.
    #[arg(long, conflicts_with = "dev_infiniband")]
    pub print_env: bool,
    /// Do not say what was done.
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments.
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "print_env"
    )]
    pub program: Vec<OsString>,
}
