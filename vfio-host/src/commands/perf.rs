//! `e810 perf`: latency and bandwidth over message sizes.

mod attached;
mod local;
mod plan;
mod rows;

use crate::output::ending::after_failure;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Error, Result, ensure};
use e810_backends::interrupts::HostPlatform;
use e810_hal::Ns;
use serde_json::{Map, Value, json};

use crate::cli::{PairArgs, PerfArgs};
use crate::handshake::{DURATION, Done, Link, Rendezvous, Role, SIZES, seconds_term};
use crate::measure::ended::{Ending, judged};
use crate::measure::endpoint::Endpoint;
use crate::measure::perf::{Client, PerfEndpoint, Plan, Run, Server};
use crate::measure::pingpong::{MESSAGE_LIMIT, UNREACHED};
use crate::measure::queues::Queues;
use crate::monitor::MonitorRegistry;
use crate::output::ending::Steps;
use crate::pci_functions::lifecycle;
use crate::pci_functions::peer::{self, PeerWatch};
use crate::pci_functions::workload::{self, RunContext, Workload};
use crate::stop::Stop;
use e810_node::start::Start;
use plan::plan;
use rows::{Plot, Rows, Sink};

#[cfg(test)]
pub(crate) use plan::{ITERATIONS, SIZE};
pub(super) use rows::DiscardRows;

/// One of this many turns, if it is empty, reads the clock.
const TURNS_PER_CLOCK: u32 = 16;
/// Iterations between two calls of [`RunContext::watch`].
const TURNS_PER_WATCH: u32 = 64;

/// Runs the command.
///
/// # Errors
/// Options that do not fit together, a bring-up that failed, a message that did
/// not arrive, or payload that differed; [`Interrupted`](crate::stop::Interrupted)
/// after a signal, with what was measured until then printed.
pub fn run(args: &PerfArgs, out: &mut dyn Write) -> Result<()> {
    let plan = plan(args)?;
    let stop = Stop::on_signals()?;
    // Opened first, so that an error is not found after the measurement.
    let plot = args.plot.as_deref().map(Plot::create).transpose()?;
    let served = workload::registry(args.pair.monitor.as_deref(), "perf")?;
    let rows = Rows::new(args, &plan, out);
    let job = Measure {
        pair: &args.pair,
        plan: &plan,
        registry: served.as_ref().map(|(registry, _)| registry),
        until: None,
        stop: &stop,
        rows: &rows,
    };
    let done = match args.pair.attached_at() {
        Some(path) => job.run_attached(path),
        None => workload::run(&args.pair, &job),
    };
    let result = judged(&stop, done);
    let (report, printed) = rows.end(Ending::of(&result, &stop));
    let mut steps = Steps::default();
    if let (Some(report), Some(plot)) = (&report, plot) {
        steps.note(plot.draw(report));
    }
    steps.note(result);
    steps.note(printed);
    steps.end()?;
    let errors = report.map_or(0, |report| report.errors());
    ensure!(errors == 0, "{errors} payloads differed from what was sent");
    Ok(stop.check()?)
}

pub(super) struct Measure<'a, S> {
    pub(super) pair: &'a PairArgs,
    pub(super) plan: &'a Plan,
    /// The registry of the functions for `e810 monitor`.
    pub(super) registry: Option<&'a MonitorRegistry>,
    /// If given, the run repeats all sizes until this is set.
    pub(super) until: Option<&'a AtomicBool>,
    /// Whether the run is asked to end early.
    pub(super) stop: &'a Stop,
    pub(super) rows: &'a S,
}

impl<S: Sink> Workload for Measure<'_, S> {
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
        let make = |platform, start: &Start, which| self.end(platform, start, which);
        let [mut ask, mut answer] = lifecycle::sides(platforms, starts, make, PerfEndpoint::close)?;
        let done = self
            .connect([&mut ask, &mut answer], context)
            .and_then(|()| self.rows.begin(context.transport, Role::Client))
            .and_then(|()| {
                self.all_sizes(|size| self.both([&mut ask, &mut answer], size, context))
            });
        let interrupts = ask.queues.interrupts() + answer.queues.interrupts();
        self.rows.carried(interrupts, context.carried());
        lifecycle::close_both([ask, answer], PerfEndpoint::close, done.map(drop), context)
    }

    fn run_distributed<P: HostPlatform>(
        &self,
        platform: P,
        start: &Start,
        rendezvous: Rendezvous,
        context: RunContext<'_>,
    ) -> Result<()> {
        let end = self.end(platform, start, 0)?;
        let job = |role, end: &mut PerfEndpoint<Endpoint<P>>, link: &mut Link| {
            self.with_peer(role, end, link, context)
        };
        peer::run_with_peer(
            end,
            rendezvous,
            context,
            self.stop,
            PerfEndpoint::close,
            |end, rendezvous, watch| peer::meet(self.pair, &mut end.queues, rendezvous, watch),
            job,
        )
    }
}

impl<S: Sink> Measure<'_, S> {
    fn end<P: HostPlatform>(
        &self,
        platform: P,
        start: &Start,
        which: usize,
    ) -> Result<PerfEndpoint<Endpoint<P>>> {
        // One carries the handshake.
        let more = u32::from(self.pair.rendezvous.cm);
        let (control, events) =
            lifecycle::bring_up_for(platform.clone(), start, self.plan.objects(more))?;
        let publisher = workload::publisher(self.registry, self.pair, which);
        let mut end = PerfEndpoint::new(platform, control, events, self.plan, publisher)?;
        match workload::start_station(self.pair, start, which, &mut end.queues) {
            Ok(()) => Ok(end),
            Err(error) => Err(after_failure(error, end.queues.close())),
        }
    }

    fn connect<P: HostPlatform>(
        &self,
        [ask, answer]: [&mut PerfEndpoint<Endpoint<P>>; 2],
        context: RunContext<'_>,
    ) -> Result<()> {
        lifecycle::wait_links([ask.queues.control(), answer.queues.control()])?;
        let (paths, mtu) =
            workload::paths(self.pair, [&mut ask.queues, &mut answer.queues], &|| {
                context.idle(self.stop)
            })?;
        let back = ask.queues.describe(paths[0].sgid_index)?;
        let there = answer.queues.describe(paths[1].sgid_index)?;
        ask.queues
            .connect(there, paths[0], mtu)
            .context("connecting function 0")?;
        answer
            .queues
            .connect(back, paths[1], mtu)
            .context("connecting function 1")
    }

    /// Runs each size until all are done or the run is asked to end. Returns how many payloads were
    /// verified, and how many differed.
    fn all_sizes(&self, mut run: impl FnMut(u32) -> Result<Run>) -> Result<Done> {
        let mut done = Done {
            verified: 0,
            errors: 0,
        };
        loop {
            for size in &self.plan.sizes {
                let one = run(*size).with_context(|| format!("messages of {size} bytes"))?;
                done.verified += one.verified;
                done.errors += one.errors;
                let is_cut = one.iterations < self.plan.iterations;
                // Without a message there is nothing to report.
                if one.iterations > 0 || one.messages > 0 {
                    self.rows.add(*size, &one)?;
                }
                if is_cut {
                    return Ok(done);
                }
            }
            match self.until {
                Some(until) if !until.load(Ordering::Relaxed) => {}
                _ => return Ok(done),
            }
        }
    }

    /// Connects the queue pairs to those of a peer, and runs all sizes.
    fn with_peer<P: HostPlatform>(
        &self,
        role: Role,
        end: &mut PerfEndpoint<Endpoint<P>>,
        link: &mut Link,
        context: RunContext<'_>,
    ) -> Result<()> {
        let (path, mtu, theirs) =
            peer::exchange_params(self.pair, &mut end.queues, link, self.terms(), &|| {
                context.idle(self.stop)
            })?;
        end.queues.connect(theirs, path, mtu)?;
        self.measure_with(role, end, link, context, |end| end.queues.interrupts())
    }

    /// Runs all sizes with a peer whose queue pairs are connected.
    fn measure_with<Q: Queues>(
        &self,
        role: Role,
        end: &mut PerfEndpoint<Q>,
        link: &mut Link,
        context: RunContext<'_>,
        interrupts: impl Fn(&PerfEndpoint<Q>) -> u64,
    ) -> Result<()> {
        self.rows.begin(context.transport, role)?;
        let done = self.all_sizes(|size| match role {
            Role::Client => self.ask(end, size, link, context),
            Role::Server => self.answer(end, size, link, context),
        });
        self.rows.carried(interrupts(end), context.carried());
        let done = done?;
        link.done(done)?;
        let theirs = link.finish()?;
        ensure!(
            theirs.errors == 0,
            "the peer found {} payloads different from what was sent",
            theirs.errors
        );
        Ok(link.check_complete()?)
    }

    fn ask<Q: Queues>(
        &self,
        end: &mut PerfEndpoint<Q>,
        size: u32,
        link: &mut Link,
        context: RunContext<'_>,
    ) -> Result<Run> {
        let mut client = Client::prepare(end, self.plan, size)?;
        match self.ask_all(end, &mut client, size, link, context) {
            Ok(()) => client.finish(end),
            Err(error) => Err(self.cut(size, &client.so_far(), error)),
        }
    }

    /// Adds the row of a run that failed with `error`, if there is something to report.
    fn cut(&self, size: u32, run: &Run, error: Error) -> Error {
        if run.messages > 0
            && let Err(unshown) = self.rows.add(size, run)
        {
            log::warn!("{unshown:#}");
        }
        error
    }

    fn ask_all<Q: Queues>(
        &self,
        end: &mut PerfEndpoint<Q>,
        client: &mut Client<'_>,
        size: u32,
        link: &mut Link,
        context: RunContext<'_>,
    ) -> Result<()> {
        link.ready()?;
        let peer_watch = PeerWatch::new(context, link);
        let mut patience = Patience::default();
        while !client.is_done() {
            if self.stop.is_asked() {
                client.stop();
            }
            let happened = client.turn(end)?;
            patience.turn(end, happened, &|| peer_watch.watch())?;
            if patience.is_due() {
                self.rows.at(size, client.completed());
            }
            if !happened {
                end.queues.sleep()?;
            }
        }
        if let Some(posted) = client.cut_short() {
            link.stop(posted, self.stop.stopped_by())?;
        }
        Ok(link.ready()?)
    }

    fn answer<Q: Queues>(
        &self,
        end: &mut PerfEndpoint<Q>,
        size: u32,
        link: &mut Link,
        context: RunContext<'_>,
    ) -> Result<Run> {
        let mut server = Server::prepare(end, self.plan, size)?;
        match self.answer_all(end, &mut server, link, context) {
            Ok(()) => server.finish(end),
            Err(error) => Err(self.cut(size, &server.so_far(), error)),
        }
    }

    fn answer_all<Q: Queues>(
        &self,
        end: &mut PerfEndpoint<Q>,
        server: &mut Server<'_>,
        link: &mut Link,
        context: RunContext<'_>,
    ) -> Result<()> {
        link.ready()?;
        let peer_watch = PeerWatch::new(context, link);
        // The peer may take any time; the watch checks that it lives.
        while !server.is_done() || !peer_watch.peer_is_through() {
            if !server.turn(end)? {
                self.stop.check()?;
                peer_watch.watch()?;
                if let Some(posted) = peer_watch.stopped() {
                    server.stop_at(&posted);
                }
                end.queues.sleep()?;
            }
        }
        Ok(link.ready()?)
    }

    /// The parameters that both processes must share.
    fn terms(&self) -> Map<String, Value> {
        let plan = self.plan;
        let terms = [
            ("command", json!("perf")),
            ("--op", json!(plan.op.name())),
            ("--test", json!(plan.test.name())),
            (SIZES, json!(plan.sizes)),
            ("--qps", json!(plan.qps)),
            ("--depth", json!(plan.depth)),
            ("--inline", json!(plan.inline)),
            ("--post-list", json!(plan.post_list)),
            (
                "--iters",
                json!(plan.duration.is_none().then_some(plan.iterations)),
            ),
            (DURATION, json!(plan.duration.map(seconds_term))),
            ("--seed", json!(plan.seed)),
            ("--check", json!(plan.check)),
        ];
        let owned = |(name, value): (&str, Value)| (name.to_owned(), value);
        terms.into_iter().map(owned).collect()
    }
}

/// Measures how long nothing has happened.
#[derive(Default)]
struct Patience {
    since: Option<Ns>,
    turns: u32,
}

impl Patience {
    /// Whether this is a turn for the watch and the progress line.
    const fn is_due(&self) -> bool {
        self.turns.is_multiple_of(TURNS_PER_WATCH)
    }

    /// A turn in which something `happened`, or an empty one.
    fn turn<Q: Queues>(
        &mut self,
        end: &PerfEndpoint<Q>,
        happened: bool,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        self.turns = self.turns.wrapping_add(1);
        if happened {
            self.since = None;
            if self.is_due() {
                watch()?;
            }
            return Ok(());
        }
        // Reading the clock costs as much as the turn.
        if !self.turns.is_multiple_of(TURNS_PER_CLOCK) {
            return Ok(());
        }
        watch()?;
        let now = end.queues.now();
        let since = *self.since.get_or_insert(now);
        ensure!(
            now - since < MESSAGE_LIMIT,
            "no completion after {MESSAGE_LIMIT}: {UNREACHED}"
        );
        Ok(())
    }
}
