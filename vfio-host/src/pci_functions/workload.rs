//! Runs a workload on two functions, or on one whose peer is in another process. This opens and
//! starts the functions, and watches them during the run.

use std::path::Path;

use anyhow::{Error, Result};
use e810::Mtu;
use e810_backends::host::Host;
use e810_backends::interrupts::HostPlatform;
use e810_backends::spec::SimSpec;
use e810_backends::{DeviceVisitor, HostDevice};
use e810_sim::{Mode, Sim};

use super::checks::{exists, warn_of_memlock};
use super::lifecycle::FUNCTIONS;
use super::open::open;
use super::simulated::{LAN_SIDE, Simulated, link, refuse_for_sim};
use super::start::start;
use super::watch;
use crate::cli::{PairArgs, StartArgs};
use crate::handshake::{Rendezvous, Role};
use crate::measure::pingpong::Watch;
use crate::monitor::{MonitorRegistry, Service, SnapshotPublisher};
use crate::output::terminal::say;
use crate::output::unwritten::of_file;
use crate::output::wire::{FrameCounts, WireReport};
use crate::stop::Stop;
use crate::usage::refuse;
use e810_node::simulated::{SIM_MTU, simulator};
use e810_node::start::{MTU, Start};

use super::addressing::check_addresses;
pub(crate) use super::addressing::{paths, start_station};
pub(crate) use super::transport_label::TransportLabel;

/// What a command does with functions that are up.
pub(crate) trait Workload {
    /// The result.
    type Outcome;

    /// Asks the workload to end.
    fn stop(&self) -> &Stop;

    /// Runs with both functions in this process.
    fn run_local<P: HostPlatform>(
        &self,
        platforms: [P; 2],
        starts: &[Start; 2],
        context: RunContext<'_>,
    ) -> Result<Self::Outcome>;

    /// Runs with one function, whose peer is in another process.
    fn run_distributed<P: HostPlatform>(
        &self,
        platform: P,
        start: &Start,
        rendezvous: Rendezvous,
        context: RunContext<'_>,
    ) -> Result<Self::Outcome>;
}

/// What a job needs while it runs.
#[derive(Clone, Copy)]
pub(crate) struct RunContext<'a> {
    /// Called now and then. An error ends the job cleanly.
    pub(crate) watch: Watch<'a>,
    /// Called after a failure: whether a device is gone.
    pub(super) is_lost: &'a dyn Fn() -> bool,
    /// What carries the messages.
    pub(crate) transport: &'a TransportLabel,
    /// The counts of frames, for a wire with faults.
    frames: &'a dyn Fn() -> Option<FrameCounts>,
}

impl<'a> RunContext<'a> {
    /// For a function that another process owns.
    pub(crate) fn attached(
        watch: Watch<'a>,
        is_lost: &'a dyn Fn() -> bool,
        transport: &'a TransportLabel,
    ) -> Self {
        Self {
            watch,
            is_lost,
            transport,
            frames: &|| None,
        }
    }

    /// What has carried the messages so far, with the counts.
    pub(crate) fn carried(&self) -> TransportLabel {
        let mut transport = self.transport.clone();
        if let Some(wire) = &mut transport.wire {
            wire.frames = (self.frames)();
        }
        transport
    }

    /// Called while the job waits.
    ///
    /// # Errors
    /// An error that ends the job.
    pub(crate) fn idle(&self, stop: &Stop) -> Result<()> {
        (self.watch)()?;
        Ok(stop.check()?)
    }
}

/// Does `workload` with the functions that `args` name.
///
/// # Errors
/// A function that cannot be opened, options that do not fit it, an error of the job, or findings
/// of the simulator.
pub(crate) fn run<J: Workload>(args: &PairArgs, workload: &J) -> Result<J::Outcome> {
    args.address.check()?;
    path_mtu(args)?;
    if args.rendezvous.cm && args.start.warm && args.address.tap.is_none() {
        refuse!(
            "--cm --warm: another driver has the function's LAN queues, without which neighbours are not found; leave out --cm, and the two processes meet over TCP"
        );
    }
    let device = args.device()?;
    let wire = device.simulated().map(|spec| {
        let link = link(spec, mode(args), args.faults);
        WireReport::new(link, spec.wire.as_ref())
    });
    let watch = || Ok(workload.stop().check()?);
    if let Some(rendezvous) = args.rendezvous.open(&watch)? {
        match &wire {
            None => only_simulated(args)?,
            Some(WireReport { name: None, .. }) => refuse!(
                "--device {device}: a function of this process has no wire to another process; give both processes --device sim:wire=NAME with the same name, or serve functions with `e810 sim` and give each process one (vfio-user:PATH)"
            ),
            Some(_) => {}
        }
        warn_of_memlock(&[&device]);
        let transport = TransportLabel {
            wire,
            ..TransportLabel::to_another_process(device.kind())
        };
        let run_distributed = DistributedRun {
            args,
            workload,
            rendezvous,
            transport: &transport,
            simulated: None,
        };
        return open([&device], &args.backend, run_distributed);
    }
    if args.peer.is_none() {
        // If the device is missing, report that and not the missing peer.
        exists(&Host::default(), &device)?;
    }
    let peer = args.peer()?;
    if device.kind() != peer.kind() {
        refuse!(
            "--device {device} --peer {peer}: these share no wire; name two functions of one kind"
        );
    }
    if device.is_simulated() && device != peer {
        refuse!(
            "--device {device} --peer {peer}: two functions of one process are on one wire; name both with the same options, or leave out --peer"
        );
    }
    check_addresses(args)?;
    warn_of_memlock(&[&device, &peer]);
    if !device.is_simulated() {
        only_simulated(args)?;
        if device == peer {
            refuse!("{device}: it cannot be its own peer; name another function with --peer");
        }
    }
    let transport = TransportLabel {
        wire,
        ..TransportLabel::between(device.kind())
    };
    let run_local = LocalRun {
        args,
        workload,
        transport: &transport,
        simulated: None,
    };
    open([&device, &peer], &args.backend, run_local)
}

/// The path MTU that follows from the options.
///
/// # Errors
/// [`Usage`](crate::usage::Usage): the interface MTU is too small.
pub(crate) fn path_mtu(args: &PairArgs) -> Result<Mtu> {
    let usual = match args.device()?.is_simulated() {
        true => SIM_MTU,
        false => MTU,
    };
    args.address.mtu(args.start.mtu.unwrap_or(usual))
}

/// The time mode of a simulator of this process.
const fn mode(args: &PairArgs) -> Mode {
    match args.virtual_time {
        true => Mode::Virtual,
        false => Mode::Real,
    }
}

/// Refuses options that only the simulator in this process has.
fn only_simulated(args: &PairArgs) -> Result<()> {
    let device = args.device()?;
    args.capture.refuse(&device)?;
    if args.faults.is_some() {
        refuse!(
            "--faults: the wire of {device} is not in this process; give --faults to the `e810 sim` that serves it"
        );
    }
    if args.virtual_time {
        refuse!("--virtual: only the simulator in this process has virtual time");
    }
    Ok(())
}

/// Makes the simulator of a command, and puts what belongs to it into `simulated`.
fn simulator_of(
    args: &PairArgs,
    spec: &SimSpec,
    functions: u8,
    simulated: &mut Option<Simulated>,
) -> Result<Sim> {
    refuse_for_sim(&args.start, &args.backend)?;
    let mode = mode(args);
    if let (Some(name), Mode::Virtual) = (&spec.wire, mode) {
        refuse!("--virtual: the other ends of wire {name} are in real time; leave it out");
    }
    let builder = simulator(spec, functions, mode, args.seed, args.start.warm);
    let sim = builder.quality(link(spec, mode, args.faults)).build();
    *simulated = Some(Simulated::new(sim.clone(), &args.capture)?);
    Ok(sim)
}

/// A job with two functions of this process.
struct LocalRun<'a, J> {
    args: &'a PairArgs,
    workload: &'a J,
    transport: &'a TransportLabel,
    simulated: Option<Simulated>,
}

impl<J: Workload> DeviceVisitor<2> for LocalRun<'_, J> {
    type Outcome = J::Outcome;
    type Error = Error;

    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim> {
        let args = self.args;
        for (option, is_given) in [
            ("--peer-mac", args.peer_mac.is_some()),
            ("--peer-vsi", args.peer_vsi.is_some()),
        ] {
            if is_given {
                refuse!("{option}: not with --device sim: {LAN_SIDE}; leave it out");
            }
        }
        simulator_of(args, spec, 2, &mut self.simulated)
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
            let context = RunContext {
                watch: &watch,
                // Checked before the objects are dropped: a driver that lost its device logs much
                // about memory then.
                is_lost: &|| watch::is_lost(&both),
                transport: self.transport,
                frames: &|| None,
            };
            let platforms = [ask.clone(), answer.clone()];
            let result = self.workload.run_local(platforms, &starts, context);
            return watch::explain(result, &both);
        };
        let starts = [
            simulated.start(0, &args.start)?,
            simulated.start(1, &args.start)?,
        ];
        // A function of this process cannot get lost, and no kernel asks for it.
        let context = RunContext {
            watch: &|| Ok(()),
            is_lost: &|| false,
            transport: self.transport,
            frames: &|| simulated.frames(args.faults),
        };
        let result = self.workload.run_local([ask, answer], &starts, context);
        simulated.finish(result)
    }
}

/// A job with one function, whose peer is in another process.
struct DistributedRun<'a, J> {
    args: &'a PairArgs,
    workload: &'a J,
    rendezvous: Rendezvous,
    transport: &'a TransportLabel,
    simulated: Option<Simulated>,
}

impl<J: Workload> DeviceVisitor<1> for DistributedRun<'_, J> {
    type Outcome = J::Outcome;
    type Error = Error;

    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim> {
        simulator_of(self.args, spec, 1, &mut self.simulated)
    }

    fn visit<D: HostDevice>(self, [function]: [D; 1]) -> Result<J::Outcome> {
        // By the connection manager it listens when the function is up.
        if self.rendezvous.role == Role::Server && !self.rendezvous.is_by_cm() {
            // On standard error: a program that reads the report does not need it.
            say(&format!("listening on {}", self.rendezvous.at()));
        }
        let start = match &self.simulated {
            Some(simulated) => simulated.start(0, &self.args.start)?,
            None => start(&function, &self.args.start)?,
        };
        let watch = watch::watch([&function]);
        let context = RunContext {
            watch: &watch,
            is_lost: &|| watch::is_lost(&[&function]),
            transport: self.transport,
            frames: &|| self.simulated.as_ref()?.frames(self.args.faults),
        };
        let result =
            self.workload
                .run_distributed(function.clone(), &start, self.rendezvous, context);
        let result = watch::explain(result, &[&function]);
        match self.simulated {
            Some(simulated) => simulated.finish(result),
            None => result,
        }
    }
}

/// The registry through which `e810 monitor` reads the functions of a command, if asked for.
///
/// # Errors
/// The socket cannot be made.
pub(crate) fn registry(
    monitor: Option<&Path>,
    command: &str,
) -> Result<Option<(MonitorRegistry, Service)>> {
    let Some(path) = monitor else {
        return Ok(None);
    };
    let registry = MonitorRegistry::new(command);
    let service = Service::start(registry.clone(), path);
    let service = service.map_err(|error| of_file("--monitor", path, error))?;
    Ok(Some((registry, service)))
}

/// The publisher of function `which` of this process.
pub(crate) fn publisher(
    registry: Option<&MonitorRegistry>,
    args: &PairArgs,
    which: usize,
) -> Option<SnapshotPublisher> {
    let device = match which {
        0 => args.device(),
        _ => args.peer(),
    };
    let name = FUNCTIONS.get(which).copied().unwrap_or_default();
    let device = device.map_or_else(|_| String::new(), |device| device.to_string());
    registry.map(|registry| registry.register(name, &device))
}
