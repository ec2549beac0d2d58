//! Options that commands with two functions share.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{ArgGroup, Args};
use e810::{CqModeration, Mtu};
use e810_backends::spec::DeviceSpec;
use e810_hal::Ns;

use super::device::{self, PairDevice, socket_path};
use super::file::checked;
use super::number::number;
use super::{BackendArgs, RendezvousArgs, StartArgs};
use crate::cli::address::AddressArgs;
use crate::cli::capture::CaptureArgs;
use crate::cli::faults::Faults;
use crate::measure::asked::Asked;
use crate::measure::wait_mode::WaitMode;
use crate::settings::{ModerationArg, TuningArg};
use crate::usage::refuse;
use e810_node::address::OwnAddress;
use e810_sim::link::parse_mac;

/// Two functions, both in this process or one in another, and the wire between them.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Functions", group(ArgGroup::new("has_other_mac").args(["warm", "listen", "connect"]).multiple(true)))]
pub struct PairArgs {
    /// The initiator: `sim`, `vfio-user:PATH`, or a PCI address like 3b:00.0 [default: E810_DEVICE,
    /// else sim].
    ///
    /// `sim:latency=2us,rate=25G` sets the latency of the simulated wire, and the rate of the
    /// functions' ports in bits per second; either can be left out. By default the rate is not
    /// limited, and the latency is 0, or 1 µs with --virtual. `sim:wire=NAME` puts the function on
    /// an Ethernet segment with all processes of this machine that name it (`e810 sim --wire
    /// NAME`), so that --listen and --connect work without a card. `mac=MAC` sets the Ethernet
    /// address of the first function. `at:PATH` is a function that `e810 serve --at PATH` owns, for
    /// `e810 perf`.
    #[arg(short, long, value_name = "SPEC", value_parser = checked(device::pair_device))]
    pub device: Option<PairDevice>,
    /// The responder [default: with `sim`, another function of the same simulator].
    #[arg(long, value_name = "SPEC", value_parser = checked(device::spec))]
    pub peer: Option<DeviceSpec>,
    /// Run the simulator in virtual time: runs are reproducible, and no times are printed.
    #[arg(long = "virtual", conflicts_with_all = ["listen", "connect"])]
    pub virtual_time: bool,
    /// Wait for interrupts instead of polling for completions all the time.
    ///
    /// With both functions in one process the thread does not sleep, but it polls only after
    /// interrupts.
    #[arg(short, long)]
    pub events: bool,
    /// Interrupt moderation: `off`, `adaptive`, `dim`, TIME like 50us, or COUNT/TIME like 16/50us
    /// [default: off; `e810 monitor`: adaptive].
    ///
    /// TIME: at most one interrupt in each TIME. COUNT/TIME: an interrupt after about COUNT
    /// completions, or after TIME. `adaptive` follows the rate of completions, `dim` follows Linux'
    /// rules.
    #[arg(long, value_name = "SETTING")]
    pub moderation: Option<ModerationArg>,
    /// The driver whose settings the queue pairs of this process get: window, ACK credits, timeouts
    /// and READ fences.
    #[arg(long, value_enum, default_value_t = TuningArg::Linux)]
    pub tuning: TuningArg,
    /// Create a socket at PATH, through which `e810 monitor --at PATH` monitors this run.
    #[arg(long, value_name = "PATH", value_parser = checked(socket_path))]
    pub monitor: Option<PathBuf>,
    /// Seed of the payload and of the simulator's random choices.
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::<u64>(0, u64::MAX))]
    pub seed: u64,
    /// Faults of the simulated wire, any of loss=N%,dup=N%,reorder=N%,corrupt=N%,delay=TIME.
    ///
    /// The shares of frames that are lost, delivered twice, overtaken by later ones, and delivered
    /// with one bit flipped. `delay`: each frame may take up to TIME longer (like 500ns, 20us,
    /// 1ms). The seed decides which frames are hit.
    #[arg(long, value_name = "FAULTS")]
    pub faults: Option<Faults>,
    /// IP addresses of the peer in this process, like `--ip` [defaults: 10.8.10.1 for --ip,
    /// 10.8.10.2 for --peer-ip].
    #[arg(long, value_name = "ADDR[/LEN],..", value_delimiter = ',', conflicts_with_all = ["listen", "connect"])]
    pub peer_ip: Vec<OwnAddress>,
    /// Ethernet address of the peer. With `--warm` it is that function's own address, like `--mac`;
    /// with `--listen` or `--connect` packets go to it.
    ///
    /// Between two processes it is not needed: the peer sends its address, or the command resolves
    /// it, or that of --gateway. This option overrides both.
    #[arg(long, value_name = "MAC", requires = "has_other_mac", value_parser = parse_mac)]
    pub peer_mac: Option<[u8; 6]>,
    /// VSI of the peer in this process, like `--vsi`.
    #[arg(long, value_name = "N", requires = "warm", conflicts_with_all = ["listen", "connect"], value_parser = number::<u16>(0, u16::MAX.into()))]
    pub peer_vsi: Option<u16>,
    /// Where the other process is, if there is one.
    #[command(flatten)]
    pub rendezvous: RendezvousArgs,
    /// What the functions are called.
    #[command(flatten)]
    pub address: AddressArgs,
    /// How the functions are started.
    #[command(flatten)]
    pub start: StartArgs,
    /// How functions behind a backend are used.
    #[command(flatten)]
    pub backend: BackendArgs,
    /// Whether frames are recorded.
    #[command(flatten)]
    pub capture: CaptureArgs,
}

impl PairArgs {
    /// The initiator, a function of this process.
    ///
    /// # Errors
    /// It is another process's, or the environment variable does not name a function.
    pub(crate) fn device(&self) -> Result<DeviceSpec> {
        match &self.device {
            None => device::chosen(None),
            Some(PairDevice::Own(device)) => Ok(device.clone()),
            Some(PairDevice::At(path)) => refuse!(
                "--device at:{path}: only `e810 perf` and programs of libibverbs (`e810 run --at {path}`) use a function of `e810 serve`",
                path = path.display()
            ),
        }
    }

    /// The socket of the process that owns the initiator, if another one does.
    pub(crate) fn attached_at(&self) -> Option<&Path> {
        match &self.device {
            Some(PairDevice::At(path)) => Some(path),
            _ => None,
        }
    }

    /// The responder in this process.
    ///
    /// # Errors
    /// None was named, and there is no default.
    pub(crate) fn peer(&self) -> Result<DeviceSpec> {
        if let Some(peer) = &self.peer {
            return Ok(peer.clone());
        }
        let device = self.device()?;
        if !device.is_simulated() {
            let other = device.form();
            refuse!(
                "--device {device}: it needs a second function; name one of this machine with --peer {other}, or give --listen here and --connect HOST to the e810 of another machine"
            );
        }
        Ok(device)
    }

    /// The parameters of the run, with its `iterations` or `duration`, as a report repeats them.
    pub(crate) fn asked(&self, iterations: u64, duration: Option<Ns>) -> Asked {
        let moderation = || match self.moderation {
            Some(moderation) => moderation.to_string(),
            None => "off".to_owned(),
        };
        Asked {
            iterations: duration.is_none().then_some(iterations),
            duration_s: duration.map(|time| time.0 as f64 / 1e9),
            seed: self.seed,
            events: self.events,
            moderation: self.events.then(moderation),
            tuning: self.tuning.name(),
            mtu: self.start.mtu,
            path_mtu: self.address.path_mtu.map(Mtu::bytes),
        }
    }

    /// How the run waits for completions.
    ///
    /// # Errors
    /// Moderation without events.
    pub(crate) fn wait_mode(&self) -> Result<WaitMode> {
        Ok(match (self.events, self.moderation) {
            (true, None) => WaitMode::Interrupt(CqModeration::Off),
            (true, Some(ModerationArg(moderation))) => WaitMode::Interrupt(moderation),
            (false, None) => WaitMode::BusyPoll,
            (false, Some(_)) => refuse!("--moderation: it applies only to events; add --events"),
        })
    }
}
