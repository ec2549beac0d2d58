//! The functions of a command: opened, started, named and shut down; two, or one
//! whose peer is in another process.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use e810::hmc::Backing;
use e810::{Control, EventSet, LinkPolicy, Mtu, Path, Platform, v4};
use e810_backends::host::Host;
use e810_backends::interrupts::HostPlatform;
use e810_backends::spec::DeviceSpec;
use e810_backends::{Function, Transport};
use e810_sim::Mode;

use super::watch;
use crate::cli::capture::Recording;
use crate::cli::faults::Faults;
use crate::cli::usage::refuse;
use crate::cli::{PairArgs, StartArgs};
use crate::commands::{LAN_SIDE, refuse_for_sim, sim_start, simulator};
use crate::exchange::{Meeting, Role};
use crate::functions::start::{LINK, Start};
use crate::measure::pingpong::Watch;
use crate::monitor::{Desk, Service, Tap};

/// Two functions of this process.
const FUNCTIONS: [&str; 2] = ["function 0", "function 1"];

/// What carried the messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carrier {
    /// In JSON.
    pub(crate) name: &'static str,
    /// In words.
    pub(crate) text: &'static str,
    /// What else is known of the run.
    pub(crate) around: &'static str,
    /// What every figure is.
    pub(crate) label: &'static str,
}

const SIMULATED: Carrier = Carrier {
    name: "simulated",
    text: "simulated, two functions in one process",
    around: ", IOMMU, ICRC and findings on",
    label: "simulated",
};

const SERVED: Carrier = Carrier {
    name: "vfio-user",
    text: "vfio-user, two functions that other processes serve",
    around: ", IOMMU, ICRC and findings on",
    label: "over vfio-user, simulated",
};

const SERVED_ONE: Carrier = Carrier {
    text: "vfio-user, a function that another process serves, and one of another e810",
    ..SERVED
};

const KERNEL: Carrier = Carrier {
    name: "vfio",
    text: "VFIO, two functions bound to vfio-pci",
    around: "",
    label: "over VFIO",
};

const KERNEL_ONE: Carrier = Carrier {
    text: "VFIO, a function bound to vfio-pci, and one of another e810",
    ..KERNEL
};

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
    is_lost: &'a dyn Fn() -> bool,
    /// What carries the messages.
    pub(crate) carrier: &'a Carrier,
}

/// Does `job` with the functions that `args` name.
///
/// # Errors
/// A function that cannot be opened, options that do not fit it, the job's own,
/// or findings of the simulator.
pub(crate) fn run<J: Job>(args: &PairArgs, job: &J) -> Result<(J::Outcome, Carrier)> {
    let how = args.backend;
    let device = args.device()?;
    if let Some(meeting) = args.meeting.open()? {
        return Ok(match &device {
            DeviceSpec::Sim => refuse!(
                "--device sim: a function of this process shares no wire with another process; serve functions with `e810 sim` and give each process one, as vfio-user:PATH"
            ),
            DeviceSpec::VfioUser(path) => {
                let open = || watch::open_user(path, how);
                (alone(args, job, meeting, open, &SERVED_ONE)?, SERVED_ONE)
            }
            DeviceSpec::Vfio(bdf, way) => {
                watch::warn_of_memlock(1);
                let open = || watch::open_vfio(*bdf, *way, how);
                (alone(args, job, meeting, open, &KERNEL_ONE)?, KERNEL_ONE)
            }
        });
    }
    if args.peer.is_none() {
        // What is missing first of all is not the peer.
        watch::exists(&Host::default(), &device)?;
    }
    let peer = args.peer()?;
    Ok(match (&device, &peer) {
        (DeviceSpec::Sim, DeviceSpec::Sim) => (simulated(args, job)?, SIMULATED),
        (DeviceSpec::VfioUser(ask), DeviceSpec::VfioUser(answer)) => {
            let open = || Ok([watch::open_user(ask, how)?, watch::open_user(answer, how)?]);
            (behind(args, job, open, &SERVED)?, SERVED)
        }
        (DeviceSpec::Vfio(ask, ask_way), DeviceSpec::Vfio(answer, answer_way)) => {
            watch::warn_of_memlock(2);
            let open = || {
                Ok([
                    watch::open_vfio(*ask, *ask_way, how)?,
                    watch::open_vfio(*answer, *answer_way, how)?,
                ])
            };
            (behind(args, job, open, &KERNEL)?, KERNEL)
        }
        _ => refuse!(
            "--device {device} --peer {peer}: these share no wire; name two functions of one kind"
        ),
    })
}

/// Two functions of a simulator in this process.
fn simulated<J: Job>(args: &PairArgs, job: &J) -> Result<J::Outcome> {
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
    let recording = args.capture.record(&sim)?;
    if let Some(Faults(quality)) = args.faults {
        sim.set_quality(quality);
    }
    let platforms = [sim.function(0), sim.function(1)];
    let starts = [
        sim_start(&platforms[0], &args.start)?,
        sim_start(&platforms[1], &args.start)?,
    ];
    let around = Around {
        watch: &|| Ok(()),
        is_lost: &|| false,
        carrier: &SIMULATED,
    };
    let outcome = job.together(platforms, &starts, around)?;
    recording.map(Recording::finish).transpose()?;
    let findings = sim.findings();
    if let Some(first) = findings.first() {
        bail!(
            "the simulator recorded {} findings; the first: {first}",
            findings.len()
        );
    }
    Ok(outcome)
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

/// Two functions behind backends of one kind.
fn behind<T: Transport, J: Job>(
    args: &PairArgs,
    job: &J,
    open: impl FnOnce() -> Result<[Function<T>; 2]>,
    carrier: &Carrier,
) -> Result<J::Outcome> {
    only_simulated(args)?;
    let device = args.device()?;
    if device == args.peer()? {
        refuse!("{device}: it cannot be its own peer; name another function with --peer");
    }
    let [ask, answer] = open()?;
    let both = [&ask, &answer];
    let peer = StartArgs {
        mac: args.peer_mac,
        vsi: args.peer_vsi,
        ..args.start.clone()
    };
    let starts = [
        watch::start(&ask, &args.start)?,
        watch::start(&answer, &peer)?,
    ];
    let watch = watch::watch(both);
    let around = Around {
        watch: &watch,
        // Before the objects are dropped, which is when a driver that lost its
        // device has much to say about memory.
        is_lost: &|| watch::is_lost(&both),
        carrier,
    };
    let result = job.together([ask.clone(), answer.clone()], &starts, around);
    watch::explain(result, &both)
}

/// One function behind a backend.
fn alone<T: Transport, J: Job>(
    args: &PairArgs,
    job: &J,
    meeting: Meeting,
    open: impl FnOnce() -> Result<Function<T>>,
    carrier: &Carrier,
) -> Result<J::Outcome> {
    only_simulated(args)?;
    let function = open()?;
    if meeting.role == Role::Answer {
        // Not with the report: a program that reads that has no use for it.
        eprintln!("listening on {}", meeting.at());
    }
    let start = watch::start(&function, &args.start)?;
    let watch = watch::watch([&function]);
    let around = Around {
        watch: &watch,
        is_lost: &|| watch::is_lost(&[&function]),
        carrier,
    };
    let result = job.apart(function.clone(), &start, meeting, around);
    watch::explain(result, &[&function])
}

/// Brings a function up and gives its parts. Its link is enabled and not waited
/// for ([`wait_link`]): the other end may be the next function to be brought up.
pub(crate) fn bring_up<P: Platform>(
    platform: P,
    start: &Start,
) -> Result<(Control<P>, EventSet<P>)> {
    let device = start.bring_up(platform, Backing::default(), LinkPolicy::GoOn, &mut |_| {})?;
    Ok(device.split())
}

/// Waits for the link of a function, whose other end is enabled by now.
///
/// # Errors
/// Why there is none.
pub(crate) fn wait_link<P: Platform>(control: &mut Control<P>) -> Result<()> {
    control.wait_link(LINK).context("waiting for the link")?;
    Ok(())
}

/// Waits for the links of both functions.
///
/// # Errors
/// Why there is none, and of which function.
pub(crate) fn wait_links<P: Platform>(controls: [&mut Control<P>; 2]) -> Result<()> {
    for (control, name) in controls.into_iter().zip(FUNCTIONS) {
        wait_link(control).context(name)?;
    }
    Ok(())
}

/// Makes a side of each of two functions of this process.
///
/// # Errors
/// What failed, and for which function.
pub(crate) fn sides<P, S>(
    [ask, answer]: [P; 2],
    [ask_start, answer_start]: &[Start; 2],
    make: impl Fn(P, &Start, usize) -> Result<S>,
) -> Result<[S; 2]> {
    Ok([
        make(ask, ask_start, 0).context(FUNCTIONS[0])?,
        make(answer, answer_start, 1).context(FUNCTIONS[1])?,
    ])
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

/// Shuts both sides of this process down, as [`close`].
pub(crate) fn close_both<S, O>(
    [ask, answer]: [S; 2],
    shut_down: impl Fn(S) -> Result<()>,
    outcome: Result<O>,
    around: Around<'_>,
) -> Result<O> {
    let sides = [(ask, FUNCTIONS[0]), (answer, FUNCTIONS[1])];
    close(sides, shut_down, outcome, around)
}

/// Shuts sides down and gives `outcome` back: also after a failure, unless a
/// device is gone.
pub(super) fn close<S, O, const N: usize>(
    sides: [(S, &'static str); N],
    shut_down: impl Fn(S) -> Result<()>,
    outcome: Result<O>,
    around: Around<'_>,
) -> Result<O> {
    let told = |error: &anyhow::Error| error.is::<watch::Told>();
    if outcome.as_ref().is_err_and(|error| !told(error)) && (around.is_lost)() {
        return outcome;
    }
    for (side, name) in sides {
        match (shut_down(side).context(name), &outcome) {
            (Err(error), Err(_)) => log::warn!("not shut down in order: {error:#}"),
            (closed, _) => closed?,
        }
    }
    outcome
}

/// Names two functions of this process, and gives the path from each to the
/// other.
pub(crate) fn paths<P: HostPlatform>(
    args: &PairArgs,
    [ask, answer]: [&mut Control<P>; 2],
) -> Result<([Path; 2], Mtu)> {
    let address = &args.address;
    let (here, there) = (ask.lan(), answer.lan());
    let mtu = address.mtu(here.mtu.min(there.mtu))?;
    let or_else = |given: &[IpAddr], last| match given {
        [] if address.gid_index.is_none() => vec![v4(10, 8, 10, last)],
        given => given.to_vec(),
    };
    let own = address.settle(ask, &or_else(&address.ip, 1));
    let own = own.context(FUNCTIONS[0])?;
    let theirs = address.settle(answer, &or_else(&args.peer_ip, 2));
    let theirs = theirs.context(FUNCTIONS[1])?;
    if own.gid == theirs.gid {
        bail!(
            "both functions are {}: give them different addresses with --ip and --peer-ip",
            own.gid.ip()
        );
    }
    let paths = [
        address.path(own, theirs.gid, there.mac),
        address.path(theirs, own.gid, here.mac),
    ];
    Ok((paths, mtu))
}

#[cfg(test)]
mod tests;
