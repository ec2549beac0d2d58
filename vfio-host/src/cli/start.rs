//! Options that say how functions are opened and started.

use std::path::PathBuf;

use clap::Args;
use e810::Quirks;
use e810_backends::{Accept, Options};
use e810_node::start::chosen_quirks;

use super::file::{checked, output};
use super::number::number;
use crate::usage::refuse;
use e810_sim::link::parse_mac;

/// How a function is started.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Bring-up")]
pub struct StartArgs {
    /// The card's package (DDP) [default: E810_DDP, else intel/ice/ddp/ice.pkg in the firmware
    /// folders; `sim` has its own].
    #[arg(long, value_name = "FILE", conflicts_with = "warm")]
    pub ddp: Option<PathBuf>,
    /// The function's LAN side is up already; only a simulator with `--warm` has such functions.
    #[arg(long)]
    pub warm: bool,
    /// Ethernet address of a function with --warm [default: from its serial number]. For a
    /// simulated function of this process use `sim:mac=MAC`.
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    pub mac: Option<[u8; 6]>,
    /// With --warm, the VSI whose packets reach the RDMA engine [default: the only one that the
    /// registers name].
    #[arg(long, value_name = "N", value_parser = number::<u16>(0, u16::MAX.into()))]
    pub vsi: Option<u16>,
    /// MTU of the interface in bytes, for both functions, 68 to 9702 [default: 1500; with `sim`
    /// 9000].
    #[arg(long, value_name = "BYTES", value_parser = number::<u16>(68, 9702))]
    pub mtu: Option<u16>,
    /// What `e810 selftest` has found of this card [default: E810_QUIRKS, else nothing].
    ///
    /// The driver goes by it where a card does other than existing drivers rely on.
    #[arg(long, value_name = "FILE")]
    pub quirks: Option<PathBuf>,
    /// Leave the port's link as it is and only wait for it, on boards whose management controller
    /// owns it.
    #[arg(long, conflicts_with = "warm")]
    pub leave_link: bool,
}

impl StartArgs {
    /// What is known of the card.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn quirks(&self) -> anyhow::Result<Quirks> {
        chosen_quirks(self.quirks.as_deref().map(|path| ("--quirks", path)))
    }

    /// Checks that the options fit together.
    ///
    /// # Errors
    /// An option that needs `--warm`.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        for (option, is_given) in [("--mac", self.mac.is_some()), ("--vsi", self.vsi.is_some())] {
            if is_given && !self.warm {
                refuse!(
                    "{option}: a function without --warm reports this itself; leave it out, or add --warm"
                );
            }
        }
        Ok(())
    }
}

/// How a function behind a backend is used.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Records and memory")]
pub struct BackendArgs {
    /// Take device memory from huge pages of 2 MiB, which must be reserved.
    #[arg(long)]
    pub hugepages: bool,
    /// Record what driver and device do in FILE, for `e810 trace`.
    ///
    /// The trace has each register access, each command with its buffers, each work request and
    /// each queue entry, with times. An existing file is overwritten; a trace ends at 256 MiB.
    #[arg(long, value_name = "FILE", value_parser = checked(output))]
    pub trace: Option<PathBuf>,
    /// Which functions are accepted; other options set it.
    #[arg(skip)]
    pub accept: Accept,
}

impl BackendArgs {
    /// The same, but with `force` also for functions of an unknown Intel Ethernet id.
    #[must_use]
    pub fn accepting(&self, force: bool) -> Self {
        let accept = match force {
            true => Accept::IntelEthernet,
            false => Accept::E810,
        };
        Self {
            accept,
            ..self.clone()
        }
    }

    /// The options of a backend.
    #[must_use]
    pub const fn options(&self) -> Options {
        Options {
            hugepages: self.hugepages,
            accept: self.accept,
        }
    }
}
