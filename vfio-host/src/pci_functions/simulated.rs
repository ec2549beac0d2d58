//! The simulator of a command that simulates its functions in this process.

use anyhow::{Result, bail};
use e810_backends::TransportInfo as _;
use e810_backends::host::Host;
use e810_backends::spec::SimSpec;
use e810_node::simulated::{self, SIM_MTU};
use e810_node::start::{Source, Start};
use e810_sim::{Mode, Quality, Sim, SimPlatform};

use crate::cli::capture::{CaptureArgs, Recording};
use crate::cli::faults::Faults;
use crate::cli::{BackendArgs, StartArgs};
use crate::output::wire::FrameCounts;
use crate::usage::refuse;

/// A simulator whose functions a command uses.
#[derive(Debug)]
pub(crate) struct Simulated {
    sim: Sim,
    recording: Option<Recording>,
}

impl Simulated {
    /// Starts to record the frames of its functions, if that was asked for.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn new(sim: Sim, capture: &CaptureArgs) -> Result<Self> {
        let recording = capture.record(&sim)?;
        Ok(Self { sim, recording })
    }

    /// The simulator itself.
    pub(crate) const fn sim(&self) -> &Sim {
        &self.sim
    }

    /// The counts of frames, for a wire with `faults`.
    pub(crate) fn frames(&self, faults: Option<Faults>) -> Option<FrameCounts> {
        faults.map(|_| self.sim.link().into())
    }

    /// How a function is started.
    ///
    /// # Errors
    /// A package that cannot be read.
    pub(crate) fn start(&self, function: u8, args: &StartArgs) -> Result<Start> {
        sim_start(&self.sim.function(function), args)
    }

    /// Ends the recording and checks for findings; returns what was `done`.
    ///
    /// # Errors
    /// The error of `done`, a file that could not be written, or findings.
    pub(crate) fn finish<T>(self, done: Result<T>) -> Result<T> {
        let recorded = self.recording.map(Recording::finish).transpose();
        let value = done.inspect_err(|_| {
            if let Err(error) = &recorded {
                log::warn!("{error:#}");
            }
        })?;
        recorded?;
        let findings = self.sim.findings();
        if let Some(first) = findings.first() {
            bail!(
                "the simulator recorded {} findings; the first: {first}",
                findings.len()
            );
        }
        Ok(value)
    }
}

/// The quality of the link of a simulator with these faults.
pub(crate) fn link(spec: &SimSpec, mode: Mode, faults: Option<Faults>) -> Quality {
    let usual = Quality::default_in(mode);
    spec.link(match faults {
        None => usual,
        Some(Faults(quality)) => Quality {
            latency: usual.latency,
            ..quality
        },
    })
}

/// How a function of a simulator in this process is started.
pub(crate) fn sim_start(function: &SimPlatform, args: &StartArgs) -> Result<Start> {
    let ceqs = simulated::ceqs(function);
    let quirks = args.quirks()?;
    if args.warm {
        let lan = function.lan(None, None, args.mtu.unwrap_or(SIM_MTU))?;
        return Ok(Start::Warm { lan, ceqs, quirks });
    }
    let package = match &args.ddp {
        None => Source::simulated(),
        Some(path) => Source::choose(&Host::default(), Some(("--ddp", path)), [0; 8])?,
    };
    Ok(Start::Cold {
        package,
        mtu: args.mtu.unwrap_or(SIM_MTU),
        ceqs,
        leave_link: args.leave_link,
        quirks,
    })
}

/// Refuses options that a simulator in this process does not use.
///
/// # Errors
/// [`Usage`](crate::usage::Usage), which names the first one.
pub(crate) fn refuse_for_sim(start: &StartArgs, backend: &BackendArgs) -> Result<()> {
    let given = [
        (
            "--mac",
            start.mac.is_some(),
            "name its Ethernet address in --device sim:mac=MAC",
        ),
        ("--vsi", start.vsi.is_some(), LAN_SIDE),
        (
            "--hugepages",
            backend.hugepages,
            "its memory is this process's own",
        ),
        (
            "--leave-link",
            start.leave_link,
            "no management controller owns its link",
        ),
    ];
    match given.into_iter().find(|(_, is_given, _)| *is_given) {
        Some((option, _, why)) => refuse!("{option}: not with --device sim: {why}; leave it out"),
        None => Ok(()),
    }
}

/// Why options cannot set the LAN side of a function of this process.
pub(crate) const LAN_SIDE: &str = "its Ethernet address and VSI are known";
