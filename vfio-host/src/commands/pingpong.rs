//! `e810 pingpong`: two functions, one connection, every byte checked.

use std::io::Write;

use anyhow::{Context, Result, bail};
use e810::{Config, Lan, Mtu, Path, Platform};
use e810_sim::Mode;

use super::{remote, sim_lan, simulator};
use crate::buffer::Payload;
use crate::cli::{LanArgs, PingpongArgs};
use crate::pingpong::{Outcome, Plan, Side, run as exchange};
use crate::progress::Progress;
use crate::report::{PingpongReport, human_ns};
use crate::spec::DeviceSpec;

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
    let (outcome, carrier) = match (&args.device, &args.peer) {
        (DeviceSpec::Sim, DeviceSpec::Sim) => (simulated(args, &plan)?, SIMULATED),
        (DeviceSpec::Sim, _) | (_, DeviceSpec::Sim) => bail!(
            "--device {} --peer {}: a function of the simulator in this process has no wire to another; name two functions of one kind",
            args.device,
            args.peer
        ),
        _ => (served(args, &plan)?, SERVED),
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
    /// What every figure is.
    label: &'static str,
}

const SIMULATED: Carrier = Carrier {
    name: "simulated",
    text: "simulated, two functions in one process",
    label: "simulated",
};

const SERVED: Carrier = Carrier {
    name: "vfio-user",
    text: "vfio-user, two functions that another process serves",
    label: "over vfio-user",
};

/// Two functions of a simulator in this process.
fn simulated(args: &PingpongArgs, plan: &Plan) -> Result<Outcome> {
    let mode = if args.virtual_time {
        Mode::Virtual
    } else {
        Mode::Real
    };
    let sim = simulator(2, mode, args.seed);
    let platforms = [sim.function(0), sim.function(1)];
    let lans = [sim_lan(&platforms[0])?, sim_lan(&platforms[1])?];
    let outcome = between(platforms, lans, plan)?;
    let findings = sim.findings();
    if let Some(first) = findings.first() {
        bail!(
            "the simulator recorded {} findings; the first: {first}",
            findings.len()
        );
    }
    Ok(outcome)
}

/// Two functions behind sockets.
fn served(args: &PingpongArgs, plan: &Plan) -> Result<Outcome> {
    if args.virtual_time {
        bail!("--virtual: only the simulator in this process has virtual time");
    }
    if args.device == args.peer {
        bail!(
            "{}: it cannot be its own peer; name another function with --peer",
            args.device
        );
    }
    let (ask, answer) = (remote::open(&args.device)?, remote::open(&args.peer)?);
    let both = [&ask, &answer];
    let peer = LanArgs {
        mac: args.peer_mac,
        vsi: args.peer_vsi,
        mtu: args.lan.mtu,
    };
    let lans = [remote::lan(&ask, &args.lan)?, remote::lan(&answer, &peer)?];
    let result = between([ask.clone(), answer.clone()], lans, plan);
    remote::explain(result, &both)
}

/// Brings both up, exchanges, and shuts both down.
fn between<P: Platform + Payload>(
    platforms: [P; 2],
    lans: [Lan; 2],
    plan: &Plan,
) -> Result<Outcome> {
    let [ask, answer] = platforms;
    let mut ask = bring_up(ask, lans[0], plan.size).context("function 0")?;
    let mut answer = bring_up(answer, lans[1], plan.size).context("function 1")?;
    connect(lans, &mut ask, &mut answer)?;
    let mut progress = Progress::new(plan.iterations);
    let outcome = exchange(&mut ask, &mut answer, plan, &mut progress);
    progress.finish();
    let outcome = outcome?;
    ask.close().context("function 0")?;
    answer.close().context("function 1")?;
    Ok(outcome)
}

fn bring_up<P: Platform + Payload>(platform: P, lan: Lan, size: u32) -> Result<Side<P>> {
    let device = e810::bring_up(platform.clone(), &Config::new(lan), &mut |_| {})?;
    let (control, events) = device.split();
    Side::new(platform, control, events, size)
}

/// Exchanges endpoints in-process and connects both ways.
fn connect<P: Platform>(lans: [Lan; 2], ask: &mut Side<P>, answer: &mut Side<P>) -> Result<()> {
    let [lan_ask, lan_answer] = lans;
    let mtu = Mtu::fitting(lan_ask.mtu.min(lan_answer.mtu))
        .context("the interface MTU is below 256 bytes plus headers")?;
    let (ip_ask, ip_answer) = (e810::v4(10, 8, 10, 1), e810::v4(10, 8, 10, 2));
    let there = answer.endpoint();
    let back = ask.endpoint();
    ask.connect(&there, Path::new(ip_ask, ip_answer, lan_answer.mac), mtu)
        .context("connecting function 0")?;
    answer
        .connect(&back, Path::new(ip_answer, ip_ask, lan_ask.mac), mtu)
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
        "transport   {}, {time}, IOMMU, ICRC and findings on",
        carrier.text
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
