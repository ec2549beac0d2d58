//! `e810 pingpong`: two functions, one connection, every byte checked.

mod apart;

use std::io::Write;
use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use e810::hmc::Backing;
use e810::{Platform, v4};
use e810_sim::Mode;

use super::{remote, sim_start, simulator};
use crate::backend::{Function, Transport};
use crate::buffer::Payload;
use crate::capture::Recording;
use crate::cli::{Op, PingpongArgs, ServiceArg, StartArgs};
use crate::faults::Faults;
use crate::pingpong::{Outcome, Plan, Side, Watch, datagram, run as exchange};
use crate::progress::Progress;
use crate::report::{PingpongReport, human_ns};
use crate::spec::DeviceSpec;
use crate::start::Start;

/// Runs the command.
///
/// # Errors
/// A bring-up that failed, a message that did not arrive, or payload that
/// differed.
pub fn run(args: &PingpongArgs, out: &mut dyn Write) -> Result<()> {
    let plan = Plan {
        op: args.op,
        size: args.size,
        iterations: args.iters,
        seed: args.seed,
    };
    if args.transport == ServiceArg::Ud && args.op != Op::Send {
        bail!(
            "--transport ud --op {}: datagrams can only be sent; use --op send, or --transport rc",
            args.op.name()
        );
    }
    let (outcome, carrier) = match args.meeting.open()? {
        Some(meeting) => apart::run(args, &plan, meeting)?,
        None => together(args, &plan)?,
    };
    let errors = outcome.errors;
    let report = report(args, &plan, &carrier, outcome);
    print(args, &carrier, &report, out)?;
    if errors > 0 {
        bail!(
            "{errors} of {} messages differed from what was sent",
            plan.iterations
        );
    }
    Ok(())
}

/// Both functions in this process.
fn together(args: &PingpongArgs, plan: &Plan) -> Result<(Outcome, Carrier)> {
    let how = args.backend;
    Ok(match (&args.device, &args.peer) {
        (DeviceSpec::Sim, DeviceSpec::Sim) => (simulated(args, plan)?, SIMULATED),
        (DeviceSpec::VfioUser(ask), DeviceSpec::VfioUser(answer)) => {
            let open = || {
                Ok([
                    remote::open_user(ask, how)?,
                    remote::open_user(answer, how)?,
                ])
            };
            (behind(args, plan, open)?, SERVED)
        }
        (DeviceSpec::Vfio(ask, ask_way), DeviceSpec::Vfio(answer, answer_way)) => {
            remote::warn_of_memlock(2);
            let open = || {
                Ok([
                    remote::open_vfio(*ask, *ask_way, how)?,
                    remote::open_vfio(*answer, *answer_way, how)?,
                ])
            };
            (behind(args, plan, open)?, KERNEL)
        }
        _ => bail!(
            "--device {} --peer {}: these share no wire; name two functions of one kind",
            args.device,
            args.peer
        ),
    })
}

/// What carried the messages.
struct Carrier {
    /// In JSON.
    name: &'static str,
    /// In words.
    text: &'static str,
    /// What else is known of the run.
    around: &'static str,
    /// What every figure is.
    label: &'static str,
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
    label: "over vfio-user",
};

const KERNEL: Carrier = Carrier {
    name: "vfio",
    text: "VFIO, two functions bound to vfio-pci",
    around: "",
    label: "over VFIO",
};

/// Two functions of a simulator in this process.
fn simulated(args: &PingpongArgs, plan: &Plan) -> Result<Outcome> {
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
    let outcome = between(args, platforms, &starts, plan, &|| Ok(()), &|| false)?;
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

/// Two functions behind backends of one kind.
fn behind<T: Transport>(
    args: &PingpongArgs,
    plan: &Plan,
    open: impl FnOnce() -> Result<[Function<T>; 2]>,
) -> Result<Outcome> {
    args.capture.refuse(&args.device)?;
    if args.faults.is_some() {
        bail!(
            "--faults: the wire of {} is not in this process; give them to the `e810 sim` that serves it",
            args.device
        );
    }
    if args.virtual_time {
        bail!("--virtual: only the simulator in this process has virtual time");
    }
    if args.device == args.peer {
        bail!(
            "{}: it cannot be its own peer; name another function with --peer",
            args.device
        );
    }
    let [ask, answer] = open()?;
    let both = [&ask, &answer];
    let peer = StartArgs {
        mac: args.peer_mac,
        vsi: args.peer_vsi,
        ..args.start.clone()
    };
    let starts = [
        remote::start(&ask, &args.start)?,
        remote::start(&answer, &peer)?,
    ];
    let watch = remote::watch(both);
    // Before the objects are dropped, which is when a driver that lost its
    // device has much to say about memory.
    let is_lost = || remote::is_lost(&both);
    let result = between(
        args,
        [ask.clone(), answer.clone()],
        &starts,
        plan,
        &watch,
        &is_lost,
    );
    remote::explain(result, &both)
}

/// Brings both up, exchanges, and shuts both down. `is_lost` is asked when that
/// failed, while everything is still there: whether a device is gone.
fn between<P: Platform + Payload>(
    args: &PingpongArgs,
    platforms: [P; 2],
    starts: &[Start; 2],
    plan: &Plan,
    watch: Watch<'_>,
    is_lost: &dyn Fn() -> bool,
) -> Result<Outcome> {
    let [ask, answer] = platforms;
    let mut ask = bring_up(ask, &starts[0], args).context("function 0")?;
    let mut answer = bring_up(answer, &starts[1], args).context("function 1")?;
    let mut progress = Progress::new(plan.iterations);
    let connected = connect(args, [&mut ask, &mut answer]);
    let outcome = connected.and_then(|()| match args.transport {
        ServiceArg::Rc => exchange(&mut ask, &mut answer, plan, &mut progress, watch),
        ServiceArg::Ud => datagrams([&mut ask, &mut answer], plan, &mut progress, watch),
    });
    progress.finish();
    close(
        [(ask, "function 0"), (answer, "function 1")],
        outcome,
        is_lost,
    )
}

/// Shuts sides down, and gives `outcome` back: also after a failure, unless a
/// device is gone.
fn close<P: Platform, const N: usize>(
    sides: [(Side<P>, &'static str); N],
    outcome: Result<Outcome>,
    is_lost: &dyn Fn() -> bool,
) -> Result<Outcome> {
    let told = |error: &anyhow::Error| error.is::<remote::Told>();
    if outcome.as_ref().is_err_and(|error| !told(error)) && is_lost() {
        return outcome;
    }
    for (side, name) in sides {
        match (side.close().context(name), &outcome) {
            (Err(error), Err(_)) => log::warn!("not shut down in order: {error:#}"),
            (closed, _) => closed?,
        }
    }
    outcome
}

fn bring_up<P: Platform + Payload>(
    platform: P,
    start: &Start,
    args: &PingpongArgs,
) -> Result<Side<P>> {
    let device = start.bring_up(platform.clone(), Backing::default(), &mut |_| {})?;
    let (control, events) = device.split();
    Side::new(platform, control, events, args.transport.into(), args.size)
}

/// The exchange over datagrams: the answering side has its turn when the asking
/// one waits.
fn datagrams<P: Platform>(
    [ask, answer]: [&mut Side<P>; 2],
    plan: &Plan,
    progress: &mut Progress,
    watch: Watch<'_>,
) -> Result<Outcome> {
    datagram::prepare(ask)?;
    datagram::prepare(answer)?;
    let mut responder = datagram::Responder::new(plan);
    let mut idle = || {
        watch()?;
        let answered = responder.turn(answer).context("on the answering side")?;
        if answered == 0 {
            answer.relax();
        }
        Ok(())
    };
    let mut outcome = datagram::ask(ask, plan, progress, &mut idle)?;
    // An iteration is right when it was both ways.
    let there = responder.outcome()?;
    outcome.errors += there.errors;
    outcome.verified = outcome.verified.saturating_sub(there.errors);
    Ok(outcome)
}

/// Exchanges endpoints in-process and connects both ways.
fn connect<P: Platform>(args: &PingpongArgs, sides: [&mut Side<P>; 2]) -> Result<()> {
    let [ask, answer] = sides;
    let address = &args.address;
    let (lan_ask, lan_answer) = (ask.lan(), answer.lan());
    let mtu = address.mtu(lan_ask.mtu.min(lan_answer.mtu))?;
    let or_else = |given: &[IpAddr], last| match given {
        [] if address.gid_index.is_none() => vec![v4(10, 8, 10, last)],
        given => given.to_vec(),
    };
    let own = ask
        .settle(address, &or_else(&address.ip, 1))
        .context("function 0")?;
    let theirs = answer
        .settle(address, &or_else(&args.peer_ip, 2))
        .context("function 1")?;
    if own.gid == theirs.gid {
        bail!(
            "both functions are {}: give them different addresses with --ip and --peer-ip",
            own.gid.ip()
        );
    }
    let (back, there) = (ask.endpoint(), answer.endpoint());
    let path = address.path(own, theirs.gid, lan_answer.mac);
    ask.connect(&there, path, mtu)
        .context("connecting function 0")?;
    let path = address.path(theirs, own.gid, lan_ask.mac);
    answer
        .connect(&back, path, mtu)
        .context("connecting function 1")
}

fn report(args: &PingpongArgs, plan: &Plan, carrier: &Carrier, outcome: Outcome) -> PingpongReport {
    let seconds = outcome.elapsed.0 as f64 / 1e9;
    // Virtual time counts events; a rate made of it would only look like one.
    let timed = !args.virtual_time;
    PingpongReport {
        transport: carrier.name,
        service: args.transport.name(),
        op: plan.op.name(),
        size: plan.size,
        iterations: plan.iterations,
        verified: outcome.verified,
        errors: outcome.errors,
        messages_per_second: (timed && seconds > 0.0).then(|| outcome.messages as f64 / seconds),
        lost: (args.transport == ServiceArg::Ud).then_some(outcome.lost),
        latency_ns: timed.then(|| outcome.latencies.summary()).flatten(),
    }
}

fn print(
    args: &PingpongArgs,
    carrier: &Carrier,
    report: &PingpongReport,
    out: &mut dyn Write,
) -> Result<()> {
    if args.json {
        serde_json::to_writer(&mut *out, report)?;
        writeln!(out)?;
        return Ok(());
    }
    let time = if args.virtual_time {
        "virtual time"
    } else {
        "real time"
    };
    writeln!(
        out,
        "transport   {}, {time}{}",
        carrier.text, carrier.around
    )?;
    writeln!(
        out,
        "verified    {} of {} × {} B {} ({} errors)",
        report.verified, report.iterations, report.size, report.op, report.errors
    )?;
    if let Some(lost) = report.lost {
        writeln!(out, "datagrams   {lost} sent again")?;
    }
    if let Some(latency) = report.latency_ns {
        let what = match args.op {
            Op::Send => "half the round trip",
            _ => "post to completion",
        };
        writeln!(
            out,
            "latency     min {}  p50 {}  p99 {}  max {}  ({}; {what})",
            human_ns(latency.min),
            human_ns(latency.p50),
            human_ns(latency.p99),
            human_ns(latency.max),
            carrier.label
        )?;
    }
    if let Some(rate) = report.messages_per_second {
        writeln!(out, "rate        {rate:.0} messages/s ({})", carrier.label)?;
    }
    Ok(())
}
