//! What a command does with two functions, or with one whose peer is in another
//! process: opened, started, and watched while it goes on.

use anyhow::{Context, Error, Result};
use e810_backends::host::Host;
use e810_backends::interrupts::HostPlatform;
use e810_backends::{DeviceVisitor, HostDevice, open};
use e810_sim::{Mode, Sim};

use super::checks::{exists, warn_of_memlock};
use super::lifecycle::FUNCTIONS;
use super::simulated::{LAN_SIDE, Simulated, refuse_for_sim, simulator};
use super::start::{Start, start};
use super::watch;
use crate::cli::faults::Faults;
use crate::cli::usage::refuse;
use crate::cli::{PairArgs, StartArgs};
use crate::exchange::{Meeting, Role};
use crate::measure::pingpong::Watch;
use crate::monitor::{Desk, Service, Tap};

pub(crate) use super::addressing::paths;
pub(crate) use super::transport_label::Carrier;

/// What a command does with functions.
pub(crate) trait Job {
    /// What comes of it.
    type Outcome;

    /// With both functions in this process.
    fn together<P: HostPlatform>(
        &self,
        platforms: [P; 2],
        starts: &[Start; 2],
        around: Around<'_>,
    ) -> Result<Self::Outcome>;

    /// With one, the other being another process's.
    fn apart<P: HostPlatform>(
        &self,
        platform: P,
        start: &Start,
        meeting: Meeting,
        around: Around<'_>,
    ) -> Result<Self::Outcome>;
}

/// What watches over a job.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    /// Asked now and then; an error ends the job, with everything in order.
    pub(crate) watch: Watch<'a>,
    /// Asked after a failure: whether a device is gone.
    pub(super) is_lost: &'a dyn Fn() -> bool,
    /// What carries the messages.
    pub(crate) carrier: &'a Carrier,
}

/// Does `job` with the functions that `args` name.
///
/// # Errors
/// A function that cannot be opened, options that do not fit it, the job's own,
/// or findings of the simulator.
pub(crate) fn run<J: Job>(args: &PairArgs, job: &J) -> Result<(J::Outcome, Carrier)> {
    let options = args.backend.options();
    let device = args.device()?;
    if let Some(meeting) = args.meeting.open()? {
        if device.is_simulated() {
            refuse!(
                "--device sim: a function of this process shares no wire with another process; serve functions with `e810 sim` and give each process one, as vfio-user:PATH"
            );
        }
        warn_of_memlock(&[&device]);
        only_simulated(args)?;
        let carrier = Carrier::to_another_process(device.kind());
        let apart = Apart {
            args,
            job,
            meeting,
            carrier: &carrier,
        };
        return Ok((open([&device], options, apart)?, carrier));
    }
    if args.peer.is_none() {
        // What is missing first of all is not the peer.
        exists(&Host::default(), &device)?;
    }
    let peer = args.peer()?;
    if device.kind() != peer.kind() {
        refuse!(
            "--device {device} --peer {peer}: these share no wire; name two functions of one kind"
        );
    }
    warn_of_memlock(&[&device, &peer]);
    if !device.is_simulated() {
        only_simulated(args)?;
        if device == peer {
            refuse!("{device}: it cannot be its own peer; name another function with --peer");
        }
    }
    let carrier = Carrier::between(device.kind());
    let together = Together {
        args,
        job,
        carrier: &carrier,
        simulated: None,
    };
    Ok((open([&device, &peer], options, together)?, carrier))
}

/// Options that only the simulator in this process has.
fn only_simulated(args: &PairArgs) -> Result<()> {
    let device = args.device()?;
    args.capture.refuse(&device)?;
    if args.faults.is_some() {
        refuse!(
            "--faults: the wire of {device} is not in this process; give them to the `e810 sim` that serves it"
        );
    }
    if args.virtual_time {
        refuse!("--virtual: only the simulator in this process has virtual time");
    }
    Ok(())
}

/// A job with two functions of this process.
struct Together<'a, J> {
    args: &'a PairArgs,
    job: &'a J,
    carrier: &'a Carrier,
    simulated: Option<Simulated>,
}

impl<J: Job> DeviceVisitor<2> for Together<'_, J> {
    type Outcome = J::Outcome;
    type Error = Error;

    fn simulator(&mut self) -> Result<Sim> {
        let args = self.args;
        refuse_for_sim(&args.start, args.backend)?;
        for (option, is_given) in [
            ("--peer-mac", args.peer_mac.is_some()),
            ("--peer-vsi", args.peer_vsi.is_some()),
        ] {
            if is_given {
                refuse!("{option}: not with --device sim: {LAN_SIDE}; leave it out");
            }
        }
        let mode = if args.virtual_time {
            Mode::Virtual
        } else {
            Mode::Real
        };
        let sim = simulator(2, mode, args.seed, args.start.warm);
        self.simulated = Some(Simulated::new(sim.clone(), &args.capture)?);
        if let Some(Faults(quality)) = args.faults {
            sim.set_quality(quality);
        }
        Ok(sim)
    }

    fn visit<D: HostDevice>(self, [ask, answer]: [D; 2]) -> Result<J::Outcome> {
        let args = self.args;
        let Some(simulated) = self.simulated else {
            let peer = StartArgs {
                mac: args.peer_mac,
                vsi: args.peer_vsi,
                ..args.start.clone()
            };
            let starts = [start(&ask, &args.start)?, start(&answer, &peer)?];
            let both = [&ask, &answer];
            let watch = watch::watch(both);
            let around = Around {
                watch: &watch,
                // Before the objects are dropped, which is when a driver that lost its
                // device has much to say about memory.
                is_lost: &|| watch::is_lost(&both),
                carrier: self.carrier,
            };
            let platforms = [ask.clone(), answer.clone()];
            let result = self.job.together(platforms, &starts, around);
            return watch::explain(result, &both);
        };
        let starts = [
            simulated.start(0, &args.start)?,
            simulated.start(1, &args.start)?,
        ];
        // What is in this process is not lost, and nobody wants it back.
        let around = Around {
            watch: &|| Ok(()),
            is_lost: &|| false,
            carrier: self.carrier,
        };
        let outcome = self.job.together([ask, answer], &starts, around)?;
        simulated.finish()?;
        Ok(outcome)
    }
}

/// A job with one function, whose peer is in another process.
struct Apart<'a, J> {
    args: &'a PairArgs,
    job: &'a J,
    meeting: Meeting,
    carrier: &'a Carrier,
}

impl<J: Job> DeviceVisitor<1> for Apart<'_, J> {
    type Outcome = J::Outcome;
    type Error = Error;

    fn visit<D: HostDevice>(self, [function]: [D; 1]) -> Result<J::Outcome> {
        if self.meeting.role == Role::Answer {
            // Not with the report: a program that reads that has no use for it.
            eprintln!("listening on {}", self.meeting.at());
        }
        let start = start(&function, &self.args.start)?;
        let watch = watch::watch([&function]);
        let around = Around {
            watch: &watch,
            is_lost: &|| watch::is_lost(&[&function]),
            carrier: self.carrier,
        };
        let result = self
            .job
            .apart(function.clone(), &start, self.meeting, around);
        watch::explain(result, &[&function])
    }
}

/// Where others can look at the functions of a command, if they may.
///
/// # Errors
/// The socket cannot be made.
pub(crate) fn desk(args: &PairArgs, command: &str) -> Result<Option<(Desk, Service)>> {
    let Some(path) = &args.monitor else {
        return Ok(None);
    };
    let desk = Desk::new(command);
    let service = Service::start(desk.clone(), path).context("--monitor")?;
    Ok(Some((desk, service)))
}

/// The place of function `which` of this process at its desk.
pub(crate) fn tap(desk: Option<&Desk>, args: &PairArgs, which: usize) -> Option<Tap> {
    let device = match which {
        0 => args.device(),
        _ => args.peer(),
    };
    let name = FUNCTIONS.get(which).copied().unwrap_or_default();
    let device = device.map_or_else(|_| String::new(), |device| device.to_string());
    desk.map(|desk| desk.tap(name, &device))
}
