//! `e810 pingpong`: two functions, one connection, every byte checked.

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
use crate::cli::{PingpongArgs, StartArgs};
use crate::faults::Faults;
use crate::pingpong::{Outcome, Plan, Side, Watch, run as exchange};
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
    let how = args.backend;
    let (outcome, carrier) = match (&args.device, &args.peer) {
        (DeviceSpec::Sim, DeviceSpec::Sim) => (simulated(args, &plan)?, SIMULATED),
        (DeviceSpec::VfioUser(ask), DeviceSpec::VfioUser(answer)) => {
            let open = || {
                Ok([
                    remote::open_user(ask, how)?,
                    remote::open_user(answer, how)?,
                ])
            };
            (behind(args, &plan, open)?, SERVED)
        }
        (DeviceSpec::Vfio(ask, ask_way), DeviceSpec::Vfio(answer, answer_way)) => {
            remote::warn_of_memlock(2);
            let open = || {
                Ok([
                    remote::open_vfio(*ask, *ask_way, how)?,
                    remote::open_vfio(*answer, *answer_way, how)?,
                ])
            };
            (behind(args, &plan, open)?, KERNEL)
        }
        _ => bail!(
            "--device {} --peer {}: these share no wire; name two functions of one kind",
            args.device,
            args.peer
        ),
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
    let outcome = between(args, platforms, &starts, plan, &|| Ok(()), &|| {})?;
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
    let failed = || remote::probe(&both);
    let result = between(
        args,
        [ask.clone(), answer.clone()],
        &starts,
        plan,
        &watch,
        &failed,
    );
    remote::explain(result, &both)
}

/// Brings both up, exchanges, and shuts both down. `failed` is called when the
/// exchange failed, while everything is still there.
fn between<P: Platform + Payload>(
    args: &PingpongArgs,
    platforms: [P; 2],
    starts: &[Start; 2],
    plan: &Plan,
    watch: Watch<'_>,
    failed: &dyn Fn(),
) -> Result<Outcome> {
    let [ask, answer] = platforms;
    let mut ask = bring_up(ask, &starts[0], plan.size).context("function 0")?;
    let mut answer = bring_up(answer, &starts[1], plan.size).context("function 1")?;
    connect(args, [&mut ask, &mut answer])?;
    let mut progress = Progress::new(plan.iterations);
    let outcome = exchange(&mut ask, &mut answer, plan, &mut progress, watch);
    progress.finish();
    match outcome {
        Err(told) if told.is::<remote::Told>() => {
            // The device still works, as far as anybody knows.
            for (side, name) in [(ask, "function 0"), (answer, "function 1")] {
                if let Err(error) = side.close() {
                    log::warn!("{name} was not shut down in order: {error:#}");
                }
            }
            Err(told)
        }
        Err(error) => {
            failed();
            Err(error)
        }
        Ok(outcome) => {
            ask.close().context("function 0")?;
            answer.close().context("function 1")?;
            Ok(outcome)
        }
    }
}

fn bring_up<P: Platform + Payload>(platform: P, start: &Start, size: u32) -> Result<Side<P>> {
    let device = start.bring_up(platform.clone(), Backing::default(), &mut |_| {})?;
    let (control, events) = device.split();
    Side::new(platform, control, events, size)
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
        op: plan.op.name(),
        size: plan.size,
        iterations: plan.iterations,
        verified: outcome.verified,
        errors: outcome.errors,
        messages_per_second: (timed && seconds > 0.0).then(|| outcome.messages as f64 / seconds),
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
    if let Some(latency) = report.latency_ns {
        let what = match args.op {
            crate::cli::Op::Send => "half the round trip",
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
