//! `e810 pingpong`: messages between two functions, every byte verified.

pub mod report;
mod with_peer;

use crate::output::ending::after_failure;
use std::cell::RefCell;
use std::io::Write;
use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use e810::{Path, Stats};
use e810_backends::interrupts::HostPlatform;

use crate::cli::{PairArgs, PingpongArgs, ServiceArg};
use crate::handshake::{Link, Program, Rendezvous, Role};
use crate::measure::ended::{Ending, judged};
use crate::measure::op::PingpongOp;
use crate::measure::pingpong::{
    KEY_BYTES, Outcome, PingpongEndpoint, PingpongEndpointPlan, Plan, Watch, datagram,
    run as exchange,
};
use crate::measure::wait_mode::WaitMode;
use crate::monitor::MonitorRegistry;
use crate::output::progress::Progress;
use crate::pci_functions::lifecycle;
use crate::pci_functions::peer::{self};
use crate::pci_functions::workload::{self, RunContext, TransportLabel, Workload};
use crate::stop::Stop;
use crate::usage::refuse;
use e810_node::start::Start;
use report::{print, report};

/// Runs the command.
///
/// # Errors
/// A bring-up that failed, a message that did not arrive, or payload that
/// differed.
pub fn run(args: &PingpongArgs, out: &mut dyn Write) -> Result<()> {
    let program = args.pair.rendezvous.with;
    if program == Program::IbvRcPingpong {
        refuse_for_rc_pingpong(args)?;
    }
    let (size, iterations) = program.size_and_iterations().unwrap_or((SIZE, ITERATIONS));
    let plan = Plan {
        op: args.op,
        size: args.size.unwrap_or(size),
        iterations: match args.duration {
            Some(_) => u64::MAX,
            None => args.iters.unwrap_or(iterations),
        },
        duration: args.duration,
        seed: args.pair.seed,
    };
    if args.transport == ServiceArg::Ud && args.op != PingpongOp::Send {
        refuse!(
            "--transport ud --op {}: datagrams allow only SENDs; use --op send, or --transport rc",
            args.op.name()
        );
    }
    let path_mtu = workload::path_mtu(&args.pair)?.bytes();
    if args.transport == ServiceArg::Ud && plan.size > path_mtu {
        refuse!(
            "--transport ud --size {}: a datagram carries at most the path MTU, {path_mtu} bytes; give a smaller --size or a larger --path-mtu or --mtu",
            plan.size
        );
    }
    if args.op == PingpongOp::SendInv && plan.size < KEY_BYTES {
        refuse!(
            "--op send-inv --size {}: a message begins with a key of {KEY_BYTES} bytes; give a larger --size",
            plan.size
        );
    }
    if let (ServiceArg::Rc, Some(group)) = (args.transport, args.group) {
        refuse!("--group {group}: a connection has one peer; use it with --transport ud");
    }
    let stop = Stop::on_signals()?;
    let served = workload::registry(args.pair.monitor.as_deref(), "pingpong")?;
    let job = Messages {
        pair: &args.pair,
        wait_mode: args.pair.wait_mode()?,
        registry: served.as_ref().map(|(registry, _)| registry),
        service: args.transport,
        group: args.group,
        counted: match (args.counters, args.qp_counters) {
            (_, true) => Counted::QueuePairs,
            (true, false) => Counted::Functions,
            (false, false) => Counted::Nothing,
        },
        plan,
        stop: &stop,
        done: RefCell::default(),
    };
    let result = judged(&stop, workload::run(&args.pair, &job));
    let ending = Ending::of(&result, &stop);
    let done = job.done.into_inner();
    // A failure before the first message leaves nothing to report.
    let Some((outcome, transport)) =
        done.filter(|(outcome, _)| result.is_ok() || outcome.iterations > 0)
    else {
        return result;
    };
    let (errors, iterations) = (outcome.errors, outcome.iterations);
    let report = report(args, &plan, &transport, outcome, ending);
    print(args, &transport, &report, out)?;
    // Before the error goes to standard error.
    out.flush()?;
    result?;
    if errors > 0 {
        bail!("{errors} of {iterations} messages differed from what was sent");
    }
    Ok(stop.check()?)
}

/// Default bytes of a message.
pub(crate) const SIZE: u32 = 64;
/// Default number of messages.
pub(crate) const ITERATIONS: u64 = 10_000;

/// Refuses what that program cannot do.
fn refuse_for_rc_pingpong(args: &PingpongArgs) -> Result<()> {
    if args.transport != ServiceArg::Rc || args.op != PingpongOp::Send {
        refuse!(
            "--with ibv_rc_pingpong: its messages are SENDs of a reliable connection; leave out --transport and --op"
        );
    }
    if args.duration.is_some() {
        refuse!(
            "--with ibv_rc_pingpong --duration: both sides count messages; give --iters here and -n there"
        );
    }
    Ok(())
}

/// The messages of a run.
struct Messages<'a> {
    pair: &'a PairArgs,
    wait_mode: WaitMode,
    registry: Option<&'a MonitorRegistry>,
    service: ServiceArg,
    /// The group that requests go to.
    group: Option<IpAddr>,
    counted: Counted,
    plan: Plan,
    stop: &'a Stop,
    /// The outcome, also of a run that failed, and what carried it; `None` before that.
    done: RefCell<Option<(Outcome, TransportLabel)>>,
}

/// Whose counters to report.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Nothing,
    Functions,
    QueuePairs,
}

impl Workload for Messages<'_> {
    type Outcome = ();

    fn stop(&self) -> &Stop {
        self.stop
    }

    fn run_local<P: HostPlatform>(
        &self,
        platforms: [P; 2],
        starts: &[Start; 2],
        context: RunContext<'_>,
    ) -> Result<()> {
        let make = |platform, start: &Start, which| self.side(platform, start, which);
        let [mut ask, mut answer] =
            lifecycle::sides(platforms, starts, make, PingpongEndpoint::close)?;
        let mut progress = Progress::new();
        let mut outcome = Outcome::default();
        let exchanged = self.counters([&mut ask, &mut answer]).and_then(|before| {
            self.connect([&mut ask, &mut answer], context)?;
            let sides = [&mut ask, &mut answer];
            let exchanged = match self.service {
                ServiceArg::Rc => {
                    let ended_by = (self.stop, &mut outcome);
                    exchange(sides, &self.plan, &mut progress, context.watch, ended_by)
                }
                ServiceArg::Ud => self.datagrams(sides, &mut progress, context.watch, &mut outcome),
            };
            outcome.interrupts = ask.endpoint.interrupts() + answer.endpoint.interrupts();
            if exchanged.is_ok() {
                outcome.counters = grown(&before, &self.counters([&mut ask, &mut answer])?);
            }
            exchanged
        });
        progress.clear();
        self.done_with(outcome, context);
        lifecycle::close_both([ask, answer], PingpongEndpoint::close, exchanged, context)
    }

    fn run_distributed<P: HostPlatform>(
        &self,
        platform: P,
        start: &Start,
        rendezvous: Rendezvous,
        context: RunContext<'_>,
    ) -> Result<()> {
        let side = self.side(platform, start, 0)?;
        let job = |role, side: &mut PingpongEndpoint<P>, link: &mut Link| {
            self.with_peer(role, side, link, context)
        };
        peer::run_with_peer(
            side,
            rendezvous,
            context,
            self.stop,
            PingpongEndpoint::close,
            |side, rendezvous, watch| peer::meet(self.pair, &mut side.endpoint, rendezvous, watch),
            job,
        )
    }
}

impl Messages<'_> {
    fn side<P: HostPlatform>(
        &self,
        platform: P,
        start: &Start,
        which: usize,
    ) -> Result<PingpongEndpoint<P>> {
        let (control, events) = lifecycle::bring_up(platform.clone(), start)?;
        let plan = PingpongEndpointPlan {
            qp_type: self.service.into(),
            size: self.plan.size,
            invalidate: self.plan.op == PingpongOp::SendInv,
            counters: self.counted == Counted::QueuePairs,
            wait_mode: self.wait_mode,
            tuning: self.pair.tuning.values(),
        };
        let publisher = workload::publisher(self.registry, self.pair, which);
        let mut side = PingpongEndpoint::new(platform, control, events, plan, publisher)?;
        match workload::start_station(self.pair, start, which, &mut side.endpoint) {
            Ok(()) => Ok(side),
            Err(error) => Err(after_failure(error, side.endpoint.close())),
        }
    }

    /// Exchanges endpoints within the process and connects both ways.
    fn connect<P: HostPlatform>(
        &self,
        [ask, answer]: [&mut PingpongEndpoint<P>; 2],
        context: RunContext<'_>,
    ) -> Result<()> {
        lifecycle::wait_links([ask.endpoint.control(), answer.endpoint.control()])?;
        let (paths, mtu) = workload::paths(
            self.pair,
            [&mut ask.endpoint, &mut answer.endpoint],
            &|| context.idle(self.stop),
        )?;
        let back = ask.endpoint.describe(paths[0].sgid_index)?;
        let there = answer.endpoint.describe(paths[1].sgid_index)?;
        ask.connect(there, paths[0], mtu)
            .context("connecting function 0")?;
        answer
            .connect(back, paths[1], mtu)
            .context("connecting function 1")?;
        self.use_group(Role::Client, ask, &paths[0])?;
        self.use_group(Role::Server, answer, &paths[1])
    }

    /// Makes a side that is connected along `path` use the group, if there is one.
    fn use_group<P: HostPlatform>(
        &self,
        role: Role,
        side: &mut PingpongEndpoint<P>,
        path: &Path,
    ) -> Result<()> {
        let Some(group) = self.group else {
            return Ok(());
        };
        let done = match role {
            Role::Client => side.send_to_group(path, group),
            Role::Server => side.endpoint.join(path.sgid_index, group),
        };
        done.with_context(|| format!("multicast group {group}"))
    }

    /// Runs the exchange over datagrams; the responder runs while the initiator waits.
    fn datagrams<P: HostPlatform>(
        &self,
        [ask, answer]: [&mut PingpongEndpoint<P>; 2],
        progress: &mut Progress,
        watch: Watch<'_>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        datagram::prepare(ask)?;
        datagram::prepare(answer)?;
        let mut responder = datagram::Responder::new(&self.plan);
        let mut idle = |ask: &mut PingpongEndpoint<P>| {
            watch()?;
            let answered = responder.turn(answer).context("on the responder's side")?;
            if answered == 0 {
                answer.endpoint.relax();
            }
            ask.endpoint.relax();
            Ok(())
        };
        let asked = datagram::ask(ask, &self.plan, progress, &mut idle, (self.stop, outcome));
        responder.stop_at(outcome.iterations);
        let all = asked.and_then(|()| responder.check_all());
        // An iteration is right if both directions are.
        let there = responder.outcome();
        outcome.errors += there.errors;
        outcome.verified = outcome.verified.saturating_sub(there.errors);
        all
    }

    /// Keeps the outcome.
    fn done_with(&self, outcome: Outcome, context: RunContext<'_>) {
        self.done.replace(Some((outcome, context.carried())));
    }

    /// The counters of functions or queue pairs, if they were asked for.
    fn counters<P: HostPlatform, const N: usize>(
        &self,
        sides: [&mut PingpongEndpoint<P>; N],
    ) -> Result<Vec<Stats>> {
        let wanted = self.counted != Counted::Nothing;
        let sides = sides.into_iter().filter(|_| wanted);
        let read = sides.map(|side| side.endpoint.counters());
        read.collect::<Result<_, _>>()
            .context("reading the counters")
    }
}

/// How much counters have grown.
fn grown(before: &[Stats], after: &[Stats]) -> Vec<Stats> {
    let pairs = after.iter().zip(before);
    pairs.map(|(after, before)| after.since(before)).collect()
}
