//! Arguments of `e810 sim`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use e810_hal::Ns;
use e810_sim::link::parse_time;
use e810_sim::{Rate, Variation};
use e810_sim_wire::{WireName, WireSpec};

use super::capture::CaptureArgs;
use super::device::socket_path;
use super::faults::Faults;
use super::file::{checked, output};
use super::number::number;
use super::{LinkArg, TransportArgs};
use e810_sim::link::parse_mac;

/// Arguments of `e810 sim`.
#[derive(Args, Debug, Clone)]
pub struct SimArgs {
    /// Serve a function on this socket; once for each function, at most 8.
    #[arg(long, value_name = "PATH", required = true, num_args = 1, value_parser = checked(socket_path))]
    pub socket: Vec<PathBuf>,
    /// The wire: `in-process`, or `udp:LOCAL_ADDR:PORT,PEER_ADDR:PORT`.
    ///
    /// `in-process` joins the functions of this server. With `udp:LOCAL_ADDR:PORT,PEER_ADDR:PORT`,
    /// frames that are for none of them go to the server that has the same link the other way
    /// round, one Ethernet frame a datagram. Example: --link udp:127.0.0.1:4001,127.0.0.1:4002
    /// here and --link udp:127.0.0.1:4002,127.0.0.1:4001 there. Datagrams from elsewhere are
    /// dropped; nothing is encrypted or authenticated.
    #[arg(long, value_name = "LINK", default_value = "in-process")]
    pub link: LinkArg,
    /// A wire with any number of ends: all servers and commands of this machine that name it are on
    /// one Ethernet segment.
    ///
    /// 1 to 64 letters, digits, -, _ and . are a name, which stands for an IPv4 multicast group on
    /// the loopback interface; the group is printed, for a virtual machine that is to be on the
    /// segment. Frames to groups and to unknown addresses go to all ends, others to the one that
    /// has the address. `--device sim:wire=NAME` is a function of the other commands on this wire.
    /// Every program of this machine can read and send frames there.
    #[arg(long = "wire", value_name = "NAME", conflicts_with = "link")]
    pub segment: Option<WireName>,
    /// Ethernet address of the first function; the last byte counts on [default:
    /// 02:e8:10:00:00:00, over UDP 02:e8, the local port, 00:00, with --wire drawn].
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    pub mac: Option<[u8; 6]>,
    /// Write a report to this file as JSON: at the end, and whenever the process gets SIGUSR1.
    ///
    /// The report of an earlier server is replaced; any other file there is left alone, and an
    /// error.
    #[arg(long, value_name = "FILE", value_parser = checked(output))]
    pub report: Option<PathBuf>,
    /// Write a package (DDP) that the simulated firmware takes to this file, for `--ddp` of the
    /// other commands.
    ///
    /// A file that is there and is not this package is left alone, and an error.
    #[arg(long, value_name = "FILE", value_parser = checked(output))]
    pub package: Option<PathBuf>,
    /// Be the card of this report (of `e810 report`).
    ///
    /// Registers after each reset, the firmware's answers, limits and features of the engine,
    /// configuration space: what the report does not have is the simulator's own. PF 0 answers
    /// as PF 0 of that card did, and the others with their own numbers in place of its.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "warm"])]
    pub card: Option<PathBuf>,
    /// How much the engines can hold.
    #[arg(long, value_enum, default_value_t = ProfileArg::Card)]
    pub profile: ProfileArg,
    /// MSI-X vectors of each function: up to 1024 with two functions, 512 with four, 256 with
    /// eight [default: 64, or the card's of --card].
    #[arg(long, value_name = "N", value_parser = number::<u16>(1, 1024))]
    pub vectors: Option<u16>,
    /// Seed of the simulator's choices.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64>(0, u64::MAX))]
    pub seed: u64,
    /// What no source says of the card: CHOICE=VALUE,... or seed=N, which draws all of it. A wrong
    /// name lists the right ones.
    #[arg(long, value_name = "CHOICES")]
    pub variation: Option<Variation>,
    /// Serve functions whose LAN side is up already, and that have no AdminQ.
    ///
    /// Without this they are as after power-up: their user has to bring them up, as Linux's ice
    /// does. SIGUSR2 has no effect on them.
    #[arg(long)]
    pub warm: bool,
    /// What the simulated wire does to frames: loss=N%,dup=N%,reorder=N%,corrupt=N%,delay=TIME,
    /// any of them.
    ///
    /// Shares of all frames lost, delivered twice, overtaken by later ones, and delivered with one
    /// bit flipped; each frame may take up to TIME (like 500ns, 20us, 1ms) longer. The seed
    /// decides which.
    #[arg(long, value_name = "FAULTS")]
    pub faults: Option<Faults>,
    /// Time that each frame is on the wire, at least, like 500ns, 2us or 1ms [default: 0].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub latency: Option<Ns>,
    /// Rate of each function's port in bits per second, like 25G or 100M; frames queue behind it
    /// [default: not limited].
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// How connections behave on the wire.
    #[command(flatten)]
    pub transport: TransportArgs,
    /// Whether frames are recorded.
    #[command(flatten)]
    pub capture: CaptureArgs,
}

impl SimArgs {
    /// The wire to other processes.
    #[must_use]
    pub fn to_others(&self) -> Option<WireSpec> {
        match (&self.segment, self.link) {
            (Some(name), _) => Some(WireSpec::Segment(name.clone())),
            (None, LinkArg::Udp(ends)) => Some(WireSpec::Pair(ends)),
            (None, LinkArg::InProcess) => None,
        }
    }
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
