//! Arguments of `e810 sim`.

use std::path::PathBuf;

use clap::Args;
use e810_hal::Ns;
use e810_sim::link::parse_time;
use e810_sim::{Rate, Variation};
use e810_sim_wire::{WireName, WireSpec};

use super::capture::CaptureArgs;
use super::device::socket_path;
use super::faults::Faults;
use super::file::{checked, output};
use super::number::number;
use super::{CardArgs, LinkArg, TransportArgs};
use e810_sim::link::parse_mac;

/// Arguments of `e810 sim`.
#[derive(Args, Debug, Clone)]
pub struct SimArgs {
    /// Serve a function on this socket; repeat for each function, at most 8.
    #[arg(long, value_name = "PATH", required = true, num_args = 1, value_parser = checked(socket_path))]
    pub socket: Vec<PathBuf>,
    /// The wire: `in-process`, or `udp:LOCAL_ADDR:PORT,PEER_ADDR:PORT`.
    ///
    /// `in-process` connects the functions of this server. With
    /// `udp:LOCAL_ADDR:PORT,PEER_ADDR:PORT`, frames for other addresses go to the server that names
    /// the same two addresses in reverse order, one Ethernet frame per datagram. Example: --link
    /// udp:127.0.0.1:4001,127.0.0.1:4002 here and --link udp:127.0.0.1:4002,127.0.0.1:4001 there.
    /// Datagrams from elsewhere are dropped; nothing is encrypted or authenticated.
    #[arg(long, value_name = "LINK", default_value = "in-process")]
    pub link: LinkArg,
    /// A wire with any number of ends: all servers and commands of this machine that name it are on
    /// one Ethernet segment.
    ///
    /// A name has 1 to 64 letters, digits, -, _ and . and stands for an IPv4 multicast group on the
    /// loopback interface. The group is printed, so that a virtual machine can join the segment.
    /// Frames to groups and to unknown addresses go to all ends, others to the end that has the
    /// address. Other commands join with `--device sim:wire=NAME`. Every program of this machine
    /// can read and send frames there.
    #[arg(long = "wire", value_name = "NAME", conflicts_with = "link")]
    pub segment: Option<WireName>,
    /// Ethernet address of the first function; the last byte counts up for the others [default:
    /// 02:e8:10:00:00:00; over UDP 02:e8, the local port, 00:00; with --wire random].
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    pub mac: Option<[u8; 6]>,
    /// Write a report as JSON to this file, at the end and whenever the process gets SIGUSR1.
    ///
    /// This replaces the report of an earlier server. Any other existing file is left alone, and
    /// the command fails.
    #[arg(long, value_name = "FILE", value_parser = checked(output))]
    pub report: Option<PathBuf>,
    /// Write a package (DDP) that the simulated firmware accepts to this file, for `--ddp` of the
    /// other commands.
    ///
    /// An existing file that is not this package is left alone, and the command fails.
    #[arg(long, value_name = "FILE", value_parser = checked(output))]
    pub package: Option<PathBuf>,
    /// The card.
    #[command(flatten)]
    pub card: CardArgs,
    /// Seed of the simulator's random choices.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64>(0, u64::MAX))]
    pub seed: u64,
    /// How the card behaves where no source documents it: CHOICE=VALUE,... or seed=N, which draws
    /// every choice. A wrong name lists all choices.
    #[arg(long, value_name = "CHOICES", conflicts_with = "quirks")]
    pub variation: Option<Variation>,
    /// Serve functions whose LAN side is up already and that have no AdminQ.
    ///
    /// Without --warm, functions start as after power-up: their user has to bring them up, as
    /// Linux' ice does. SIGUSR2 has no effect on functions with --warm.
    #[arg(long, conflicts_with = "card")]
    pub warm: bool,
    /// Faults of the simulated wire, any of loss=N%,dup=N%,reorder=N%,corrupt=N%,delay=TIME.
    ///
    /// The shares of frames that are lost, delivered twice, overtaken by later ones, and delivered
    /// with one bit flipped. `delay`: each frame may take up to TIME longer (like 500ns, 20us,
    /// 1ms). The seed decides which frames are hit.
    #[arg(long, value_name = "FAULTS")]
    pub faults: Option<Faults>,
    /// Minimum time that each frame is on the wire, like 500ns, 2us or 1ms [default: 0].
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
