//! The command line: what can be asked, and its limits.
//!
//! Usage errors end in exit code 2, which is clap's own.

pub mod address;
pub mod capture;
pub mod device;
pub mod faults;
pub mod help;
pub(crate) mod mac;
mod moderation;
mod monitor;
pub(crate) mod number;
mod pair;
mod perf;
mod tuning;
pub mod usage;
mod wire;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use e810_backends::Options;
use e810_backends::spec::{Bdf, DeviceSpec};
use e810_sim::Variation;
use e810_sim::udp::LinkSpec;
use e810_sim_server::VECTORS;

use crate::cli::capture::CaptureArgs;
use crate::cli::faults::Faults;
use crate::measure::op::Op;
use device::socket_path;
use mac::parse_mac;
use number::{number, size};

pub use moderation::ModerationArg;
pub use monitor::MonitorArgs;
pub use pair::PairArgs;
pub use perf::{PerfArgs, TestArg};
pub use tuning::TuningArg;
pub use wire::WireArgs;

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
    /// Measure latency or bandwidth of an operation over message sizes.
    Perf(PerfArgs),
    /// Watch functions at work: interrupts, moderation, queues, asynchronous events, counters.
    Monitor(MonitorArgs),
    /// Show a port's state, addresses and counters.
    Stat(StatArgs),
    /// Bring one function up, show each stage and the memory it took, and shut it down.
    Up(UpArgs),
    /// Serve simulated functions to other processes and virtual machines over vfio-user.
    #[command(after_long_help = e810_sim_server::USERS)]
    Sim(SimArgs),
}

impl Command {
    /// Whether what the command prints is JSON.
    #[must_use]
    pub const fn prints_json(&self) -> bool {
        match self {
            Self::List(args) => args.json,
            Self::Doctor(args) => args.json,
            Self::Pingpong(args) => args.json,
            Self::Perf(args) => args.json,
            Self::Monitor(args) => args.json,
            Self::Stat(args) => args.json,
            Self::Up(args) => args.json,
            Self::Bind(_) | Self::Unbind(_) | Self::Sim(_) => false,
        }
    }
}

/// Arguments of `e810 pingpong`.
#[derive(Args, Debug, Clone)]
pub struct PingpongArgs {
    /// Bytes of payload in a message, 1 to 64M (K = 1024).
    #[arg(short, long, value_name = "BYTES", default_value = "64", value_parser = size::<u32>(1, MAX_SIZE))]
    pub size: u32,
    /// Messages to exchange [default: 10000].
    #[arg(short = 'n', long, value_name = "N", value_parser = number::<u64>(1, 1_000_000_000))]
    pub iters: Option<u64>,
    /// Go on for so many seconds, however many messages that are.
    #[arg(short = 'D', long, value_name = "SECONDS", conflicts_with_all = ["iters", "virtual_time"], value_parser = number::<u32>(1, 86_400))]
    pub duration: Option<u32>,
    /// The operation that carries a message.
    #[arg(long, value_enum, default_value_t = Op::Send)]
    pub op: Op,
    /// How messages are carried: a reliable connection, or datagrams.
    ///
    /// Datagrams have --op send only, and at most the path MTU of payload. One that has no answer in 50 ms is sent
    /// again, and counted.
    #[arg(long, value_enum, default_value_t = ServiceArg::Rc)]
    pub transport: ServiceArg,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Also print what the counters of each function of this process have grown by.
    #[arg(long)]
    pub counters: bool,
    /// The same of the queue pairs, which get counters of their own: they are then not among the function's.
    #[arg(long, conflicts_with = "counters")]
    pub qp_counters: bool,
    /// The functions.
    #[command(flatten)]
    pub pair: PairArgs,
}

/// How a function is started.
#[derive(Args, Debug, Clone, Default)]
pub struct StartArgs {
    /// The card's package (DDP) [default: E810_DDP, else intel/ice/ddp/ice.pkg of the firmware; `sim` has its own].
    #[arg(long, value_name = "FILE", conflicts_with = "warm")]
    pub ddp: Option<PathBuf>,
    /// The function's LAN side is ready, as only a simulator started with `--warm` leaves it.
    #[arg(long)]
    pub warm: bool,
    /// Ethernet address of the function [default: from its serial number].
    #[arg(long, value_name = "MAC", requires = "warm", value_parser = parse_mac)]
    pub mac: Option<[u8; 6]>,
    /// VSI whose packets reach the RDMA engine [default: the only one its registers name].
    #[arg(long, value_name = "N", requires = "warm", value_parser = number::<u16>(0, u16::MAX.into()))]
    pub vsi: Option<u16>,
    /// MTU of the interface in bytes, for both functions, 68 to 9702 [default: 1500; with `sim` 9000].
    #[arg(long, value_name = "BYTES", value_parser = number::<u16>(68, 9702))]
    pub mtu: Option<u16>,
    /// Leave the port's link as it is, and only wait for it: on boards whose management controller owns it.
    #[arg(long, conflicts_with = "warm")]
    pub leave_link: bool,
}

/// How a function behind a backend is used.
#[derive(Args, Debug, Clone, Copy, Default)]
pub struct BackendArgs {
    /// Take memory for the device from huge pages of 2 MiB, which have to be reserved.
    #[arg(long)]
    pub hugepages: bool,
}

impl BackendArgs {
    /// The same for a backend.
    #[must_use]
    pub const fn options(&self) -> Options {
        Options {
            hugepages: self.hugepages,
        }
    }
}

/// Arguments of `e810 up`.
#[derive(Args, Debug, Clone)]
pub struct UpArgs {
    /// The function: `sim`, `vfio-user:PATH` or `vfio:BDF` [default: E810_DEVICE, else sim].
    #[arg(short, long, value_name = "SPEC")]
    pub device: Option<DeviceSpec>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Print the limits of the card instead, as an expression of Rust: for a
    /// program that computes its memory as a constant (`Config::dma_bytes`).
    #[arg(long, conflicts_with = "json")]
    pub card: bool,
    /// Reset the whole card first (a core reset): the way out where no function can load a package any more.
    ///
    /// All functions of the card are reset, and the package is gone. Refused while another function of the same slot is
    /// bound to a kernel's driver or in use; functions that a virtual machine or another host has are not seen.
    #[arg(long)]
    pub reset_card: bool,
    /// Reset the card even if others use its functions.
    #[arg(long, requires = "reset_card")]
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

/// Arguments of `e810 stat`.
#[derive(Args, Debug, Clone)]
pub struct StatArgs {
    /// The function: `sim`, `vfio-user:PATH` or `vfio:BDF` [default: E810_DEVICE, else sim].
    ///
    /// It is brought up for this, so it is one that nobody else uses; `e810 pingpong --counters` counts messages.
    #[arg(short, long, value_name = "SPEC")]
    pub device: Option<DeviceSpec>,
    /// Also show what the device offers: its limits, by the names of `ibv_devinfo -v`.
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

/// Arguments of `e810 sim`.
#[derive(Args, Debug, Clone)]
pub struct SimArgs {
    /// Serve a function on this socket; once for each function, at most 8.
    #[arg(long, value_name = "PATH", required = true, num_args = 1, value_parser = socket_path)]
    pub socket: Vec<PathBuf>,
    /// The wire: `in-process`, or `udp:LOCAL_ADDR:PORT,PEER_ADDR:PORT`.
    ///
    /// `in-process` joins the functions of this server. With `udp:LOCAL_ADDR:PORT,PEER_ADDR:PORT`, frames that are
    /// for none of them go to the server that has the same link the other way round, one Ethernet frame a datagram.
    /// Example: --link udp:127.0.0.1:4001,127.0.0.1:4002 here and --link udp:127.0.0.1:4002,127.0.0.1:4001 there.
    /// Datagrams from elsewhere are dropped; nothing is encrypted or authenticated.
    #[arg(long, value_name = "LINK", default_value = "in-process")]
    pub link: LinkSpec,
    /// Ethernet address of the first function; the last byte counts on [default: 02:e8:10:00:00:00, over UDP 02:e8, the local port, 00:00].
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    pub mac: Option<[u8; 6]>,
    /// Write what was seen to this file as JSON: at the end, and whenever the process gets SIGUSR1.
    ///
    /// The report of an earlier server is replaced; any other file there is left alone, and an error.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write a package (DDP) that the simulated firmware takes to this file, for `--ddp` of the other commands.
    ///
    /// A file that is there and is not this package is left alone, and an error.
    #[arg(long, value_name = "FILE")]
    pub package: Option<PathBuf>,
    /// How much the engines can hold.
    #[arg(long, value_enum, default_value_t = ProfileArg::Card)]
    pub profile: ProfileArg,
    /// MSI-X vectors of each function: up to 1024 with two functions, 512 with four, 256 with eight.
    #[arg(long, value_name = "N", default_value_t = VECTORS, value_parser = number::<u16>(1, 1024))]
    pub vectors: u16,
    /// Seed of the simulator's choices.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64>(0, u64::MAX))]
    pub seed: u64,
    /// What no source says of the card: CHOICE=VALUE,... or seed=N, which draws all of it. A wrong name lists the right ones.
    #[arg(long, value_name = "CHOICES")]
    pub variation: Option<Variation>,
    /// Serve functions whose LAN side is up already, and that have no AdminQ.
    ///
    /// Without this they are as after power-up: whoever uses them has to bring them up, as Linux's ice does.
    #[arg(long)]
    pub warm: bool,
    /// What the simulated wire does to frames: loss=N%,dup=N%,reorder=N%,corrupt=N%,delay=TIME, any of them.
    ///
    /// Shares of all frames lost, delivered twice, overtaken by later ones, and delivered with one bit flipped; each
    /// frame may take up to TIME (like 500ns, 20us, 1ms) longer. The seed decides which.
    #[arg(long, value_name = "FAULTS")]
    pub faults: Option<Faults>,
    /// How connections behave on the wire.
    #[command(flatten)]
    pub wire: WireArgs,
    /// Whether frames are recorded.
    #[command(flatten)]
    pub capture: CaptureArgs,
}

/// Limits of a simulated engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ProfileArg {
    /// As much as a card may have.
    Card,
    /// Fits a machine with 1 GiB.
    Small,
    /// An E810-C as published numbers show it.
    E810c,
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
const MAX_SIZE: u64 = 64 << 20;

/// How messages are carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ServiceArg {
    /// A reliable connection.
    Rc,
    /// Unreliable datagrams.
    Ud,
}

impl ServiceArg {
    /// The name used on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rc => "rc",
            Self::Ud => "ud",
        }
    }
}

impl From<ServiceArg> for e810::QpType {
    fn from(service: ServiceArg) -> Self {
        match service {
            ServiceArg::Rc => Self::Rc,
            ServiceArg::Ud => Self::Ud,
        }
    }
}

#[cfg(test)]
mod tests;
