//! The command line: what can be asked, and its limits.
//!
//! Usage errors end in exit code 2, which is clap's own.

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::spec::{Bdf, DeviceSpec};

/// RDMA on the Intel E810, without a kernel driver.
#[derive(Parser, Debug)]
#[command(name = "e810", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// List the E810 functions of this machine.
    List(ListArgs),
    /// Check what a function needs to be used from user space, and say what mends it.
    Doctor(DoctorArgs),
    /// Give functions to vfio-pci, and remember their drivers.
    Bind(BindArgs),
    /// Give functions back to the drivers they had.
    Unbind(BindArgs),
    /// Bring two functions up, connect a QP pair, and verify every message.
    Pingpong(PingpongArgs),
    /// Bring one function up, show each stage and the memory it took, and shut it down.
    Up(UpArgs),
}

/// Arguments of `e810 pingpong`.
#[derive(Args, Debug, Clone)]
pub struct PingpongArgs {
    /// The function that asks: `sim`, `vfio-user:PATH` or `vfio:BDF`.
    #[arg(long, value_name = "SPEC", default_value = "sim")]
    pub device: DeviceSpec,
    /// The function that answers; with `sim`, another function of the same simulator.
    #[arg(long, value_name = "SPEC", default_value = "sim")]
    pub peer: DeviceSpec,
    /// Bytes of payload in a message.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=MAX_SIZE))]
    pub size: u32,
    /// Messages to exchange.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub iters: u64,
    /// The operation that carries a message.
    #[arg(long, value_enum, default_value_t = Op::Send)]
    pub op: Op,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Run the simulator in virtual time: reproducible, prints counts and no times.
    #[arg(long = "virtual")]
    pub virtual_time: bool,
    /// Seed of the simulator's choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Arguments of `e810 up`.
#[derive(Args, Debug, Clone)]
pub struct UpArgs {
    /// The function: `sim`, `vfio-user:PATH` or `vfio:BDF`.
    #[arg(long, value_name = "SPEC", default_value = "sim")]
    pub device: DeviceSpec,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `e810 list`.
#[derive(Args, Debug, Clone)]
pub struct ListArgs {
    /// Print one JSON array instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `e810 doctor`.
#[derive(Args, Debug, Clone)]
pub struct DoctorArgs {
    /// The function to check, like 0000:3b:00.0; without it, all E810 functions.
    #[arg(value_name = "BDF")]
    pub function: Option<Bdf>,
    /// Print one JSON array instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `e810 bind` and `e810 unbind`.
#[derive(Args, Debug, Clone)]
pub struct BindArgs {
    /// The functions, like 0000:3b:00.0; those of one IOMMU group belong in one command.
    #[arg(value_name = "BDF", required = true)]
    pub functions: Vec<Bdf>,
    /// Bind a function that the default route or virtual functions depend on; unbind one that is in use.
    #[arg(long)]
    pub force: bool,
}

/// Largest payload of `pingpong`: 64 MiB, so that a typing error does not ask
/// for the machine's memory; the device's own limit is 2^31 - 1.
const MAX_SIZE: i64 = 64 << 20;

/// An RDMA operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Op {
    /// SEND into a posted receive, answered by a SEND.
    Send,
    /// RDMA WRITE into the peer's memory, checked there, written back.
    Write,
    /// RDMA READ of the peer's memory.
    Read,
}

impl Op {
    /// The name used on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults_and_limits() {
        let cli = Cli::try_parse_from(["e810", "pingpong"]).unwrap();
        let Command::Pingpong(args) = cli.command else {
            panic!("pingpong")
        };
        assert_eq!((args.size, args.iters, args.op), (64, 10_000, Op::Send));
        for bad in [
            &["e810", "pingpong", "--iters", "0"][..],
            &["e810", "pingpong", "--size", "67108865"],
            &["e810", "pingpong", "--op", "atomic"],
            &["e810", "pingpong", "--device", "eth0"],
            &["e810", "down"],
            &["e810", "bind"],
            &["e810", "bind", "eth0"],
            &["e810", "doctor", "3b:00.9"],
        ] {
            assert_eq!(Cli::try_parse_from(bad).unwrap_err().exit_code(), 2);
        }
    }
}
