//! `e810 perf`: latency and bandwidth over message sizes.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail, ensure};
use e810_hal::Ns;
use serde_json::{Map, Value, json};

use super::pair::{self, Around, Job};
use super::peer::{self, Lookout};
use crate::cli::{PairArgs, PerfArgs, TestArg};
use crate::exchange::{Done, Link, Meeting, Role};
use crate::interrupts::HostPlatform;
use crate::monitor::Desk;
use crate::perf::{
    self, Client, End, MAX_POST_LIST, PerfReport, Plan, Run, Server, Test, core_to_core,
};
use crate::pingpong::{MESSAGE_LIMIT, UNREACHED};
use crate::progress::Progress;
use crate::start::Start;

/// Messages outstanding on a queue pair, where nothing else is asked for.
const DEPTH: u32 = 128;
/// The same for latency, where only a few are.
const LATENCY_DEPTH: u32 = 16;
/// Turns between two looks at what watches over the run.
const LOOK: u32 = 64;
/// Payload memory of a side, at most: a typing error should not ask for all
/// that the machine has.
const MOST_MEMORY: u64 = 1 << 30;

/// Runs the command.
///
/// # Errors
/// Options that do not fit together, a bring-up that failed, a message that did
/// not arrive, or payload that differed.
pub fn run(args: &PerfArgs, out: &mut dyn Write) -> Result<()> {
    let plan = plan(args)?;
    if args.plot.is_some() && args.pair.virtual_time {
        bail!("--plot: virtual time measures nothing; leave out --virtual");
    }
    if args.plot.is_some() && args.pair.meeting.listen.is_some() {
        bail!("--plot: the side that connects measures; give it there");
    }
    let served = pair::desk(&args.pair, "perf")?;
    let job = Measure {
        pair: &args.pair,
        plan: &plan,
        desk: served.as_ref().map(|(desk, _)| desk),
        until: None,
    };
    let (runs, carrier) = pair::run(&args.pair, &job)?;
    let timed = runs.measured && !args.pair.virtual_time;
    let floor = (timed && plan.test == Test::Latency).then(core_to_core);
    let mut report = PerfReport::new(&plan, carrier.name, floor.flatten());
    for (size, run) in plan.sizes.iter().zip(&runs.runs) {
        report.add(&plan, *size, run, timed);
    }
    if args.json {
        serde_json::to_writer(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        let label = match (runs.measured, timed) {
            (false, _) => "measured by the side that connects",
            (true, false) => "virtual time: no times",
            (true, true) => carrier.label,
        };
        perf::print(&report, carrier.text, label, out)?;
    }
    if let Some(path) = &args.plot {
        let picture = perf::svg(&report).context("--plot: there are no figures")?;
        std::fs::write(path, picture).with_context(|| format!("--plot {}", path.display()))?;
    }
    let errors = report.errors();
    ensure!(errors == 0, "{errors} payloads differed from what was sent");
    Ok(())
}

/// What `args` ask for, if it can be.
fn plan(args: &PerfArgs) -> Result<Plan> {
    let test = match args.test {
        TestArg::Lat => Test::Latency,
        TestArg::Bw => Test::Bandwidth,
    };
    if test == Test::Latency && (args.qps > 1 || args.post_list > 1 || args.depth.is_some()) {
        bail!(
            "--test lat: one message at a time has no use for --qps, --post-list or --depth; leave them out, or use --test bw"
        );
    }
    let depth = match test {
        Test::Latency => LATENCY_DEPTH,
        Test::Bandwidth => args.depth.unwrap_or(DEPTH),
    };
    ensure!(
        args.post_list <= depth,
        "--post-list {}: a list does not fit a queue of {depth}; give a larger --depth",
        args.post_list
    );
    let plan = Plan {
        op: args.op,
        test,
        sizes: match args.all {
            true => (1..=23).map(|power| 1 << power).collect(),
            false => vec![args.size],
        },
        qps: args.qps as usize,
        depth,
        inline: args.inline,
        post_list: args.post_list,
        iterations: args.iters,
        seed: args.pair.seed,
        check: args.check,
        waits: args.pair.waits()?,
        tuning: args.pair.tuning.values(),
    };
    let memory = plan.places() as u64 * u64::from(plan.largest()) * 2;
    ensure!(
        memory <= MOST_MEMORY,
        "--check: {} MiB of memory on each side for {} places of {} bytes; give a smaller --size, --depth or --qps",
        memory >> 20,
        plan.places(),
        plan.largest()
    );
    Ok(plan)
}

/// What was measured, or seen by the side that answers.
pub(super) struct Runs {
    runs: Vec<Run>,
    measured: bool,
}

pub(super) struct Measure<'a> {
    pub(super) pair: &'a PairArgs,
    pub(super) plan: &'a Plan,
    /// Where others look at the functions.
    pub(super) desk: Option<&'a Desk>,
    /// All sizes again and again until this is set.
    pub(super) until: Option<&'a AtomicBool>,
}

impl Job for Measure<'_> {
    type Outcome = Runs;

    fn together<P: HostPlatform>(
        &self,
        platforms: [P; 2],
        starts: &[Start; 2],
        around: Around<'_>,
    ) -> Result<Runs> {
        let make = |platform, start: &Start, which| self.end(platform, start, which);
        let [mut ask, mut answer] = pair::sides(platforms, starts, make)?;
        let runs = self
            .connect([&mut ask, &mut answer])
            .and_then(|()| self.all_sizes(|size| self.both([&mut ask, &mut answer], size, around)));
        pair::close_both([ask, answer], End::close, runs, around).map(|runs| Runs {
            runs,
            measured: true,
        })
    }

    fn apart<P: HostPlatform>(
        &self,
        platform: P,
        start: &Start,
        meeting: Meeting,
        around: Around<'_>,
    ) -> Result<Runs> {
        let end = self.end(platform, start, 0)?;
        let measured = meeting.role == Role::Ask;
        let job = |role, end: &mut End<P>, link: &mut Link| self.with_peer(role, end, link, around);
        let runs = peer::meet(end, meeting, around, End::close, job)?;
        Ok(Runs { runs, measured })
    }
}

impl Measure<'_> {
    fn end<P: HostPlatform>(&self, platform: P, start: &Start, which: usize) -> Result<End<P>> {
        let (control, events) = pair::bring_up(platform.clone(), start)?;
        let tap = pair::tap(self.desk, self.pair, which);
        End::new(platform, control, events, self.plan, tap)
    }

    fn connect<P: HostPlatform>(&self, [ask, answer]: [&mut End<P>; 2]) -> Result<()> {
        pair::wait_links([ask.control(), answer.control()])?;
        let (paths, mtu) = pair::paths(self.pair, [ask.control(), answer.control()])?;
        let (back, there) = (ask.endpoints(), answer.endpoints());
        ask.connect(there, paths[0], mtu)
            .context("connecting function 0")?;
        answer
            .connect(back, paths[1], mtu)
            .context("connecting function 1")
    }

    /// A run for each size; the last ones, if they go on.
    fn all_sizes(&self, mut run: impl FnMut(u32) -> Result<Run>) -> Result<Vec<Run>> {
        if let Some(until) = self.until {
            loop {
                let runs = self.plan.sizes.iter().map(|size| run(*size));
                let runs = runs.collect::<Result<_>>()?;
                if until.load(Ordering::Relaxed) {
                    return Ok(runs);
                }
            }
        }
        let mut progress = Progress::new(self.plan.sizes.len() as u64);
        let mut runs = Vec::new();
        for size in &self.plan.sizes {
            let one = run(*size).with_context(|| format!("messages of {size} bytes"));
            match one {
                Ok(run) => runs.push(run),
                Err(error) => {
                    progress.finish();
                    return Err(error);
                }
            }
            progress.at(runs.len() as u64);
        }
        progress.finish();
        Ok(runs)
    }

    /// A run with both sides in this process, each having its turn.
    fn both<P: HostPlatform>(
        &self,
        [ask, answer]: [&mut End<P>; 2],
        size: u32,
        around: Around<'_>,
    ) -> Result<Run> {
        let mut server = Server::prepare(answer, self.plan, size)?;
        let mut client = Client::prepare(ask, self.plan, size)?;
        let mut patience = Patience::default();
        while !client.is_done() || !server.is_done() {
            let asked = client.turn(ask).context("on the asking side")?;
            let answered = server.turn(answer).context("on the answering side")?;
            patience.turn(ask, asked || answered, around.watch)?;
            if !asked && !answered {
                ask.relax();
                answer.relax();
            }
        }
        let there = server.finish(answer)?;
        let mut run = client.finish(ask)?;
        run.verified += there.verified;
        run.errors += there.errors;
        Ok(run)
    }

    /// All sizes with a peer that was met.
    fn with_peer<P: HostPlatform>(
        &self,
        role: Role,
        end: &mut End<P>,
        link: &mut Link,
        around: Around<'_>,
    ) -> Result<Vec<Run>> {
        let mine = end.endpoints();
        let (path, mtu, theirs) = peer::greet(self.pair, end.control(), link, self.terms(), mine)?;
        pair::wait_link(end.control())?;
        end.connect(theirs, path, mtu)?;
        let runs = self.all_sizes(|size| match role {
            Role::Ask => self.ask(end, size, link, around),
            Role::Answer => self.answer(end, size, link, around),
        })?;
        let sum = |of: fn(&Run) -> u64| runs.iter().map(of).sum();
        link.done(Done {
            verified: sum(|run| run.verified),
            errors: sum(|run| run.errors),
        })?;
        let theirs = link.finish()?;
        ensure!(
            theirs.errors == 0,
            "the peer found {} payloads different from what was sent",
            theirs.errors
        );
        Ok(runs)
    }

    fn ask<P: HostPlatform>(
        &self,
        end: &mut End<P>,
        size: u32,
        link: &mut Link,
        around: Around<'_>,
    ) -> Result<Run> {
        let mut client = Client::prepare(end, self.plan, size)?;
        link.ready()?;
        let lookout = Lookout::new(around, link);
        let mut patience = Patience::default();
        while !client.is_done() {
            let happened = client.turn(end)?;
            patience.turn(end, happened, &|| lookout.watch())?;
            if !happened {
                end.sleep()?;
            }
        }
        link.ready()?;
        client.finish(end)
    }

    fn answer<P: HostPlatform>(
        &self,
        end: &mut End<P>,
        size: u32,
        link: &mut Link,
        around: Around<'_>,
    ) -> Result<Run> {
        let mut server = Server::prepare(end, self.plan, size)?;
        link.ready()?;
        let lookout = Lookout::new(around, link);
        // How long the peer takes is its business; whether it lives is seen.
        while !server.is_done() || !lookout.peer_is_through() {
            if !server.turn(end)? {
                lookout.watch()?;
                end.sleep()?;
            }
        }
        link.ready()?;
        server.finish(end)
    }

    /// What both processes must have been asked for.
    fn terms(&self) -> Map<String, Value> {
        let plan = self.plan;
        let terms = [
            ("command", json!("perf")),
            ("--op", json!(plan.op.name())),
            ("--test", json!(plan.test.name())),
            ("--size or --all", json!(plan.sizes)),
            ("--qps", json!(plan.qps)),
            ("--depth", json!(plan.depth)),
            ("--inline", json!(plan.inline)),
            ("--post-list", json!(plan.post_list)),
            ("--iters", json!(plan.iterations)),
            ("--seed", json!(plan.seed)),
            ("--check", json!(plan.check)),
        ];
        let owned = |(name, value): (&str, Value)| (name.to_owned(), value);
        terms.into_iter().map(owned).collect()
    }
}

/// How long nothing has happened.
#[derive(Default)]
struct Patience {
    since: Option<Ns>,
    turns: u32,
}

impl Patience {
    /// A turn in which something `happened`, or an empty one.
    fn turn<P: HostPlatform>(
        &mut self,
        end: &End<P>,
        happened: bool,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        self.turns = self.turns.wrapping_add(1);
        if happened {
            self.since = None;
            if self.turns.is_multiple_of(LOOK) {
                watch()?;
            }
            return Ok(());
        }
        watch()?;
        let now = end.now();
        let since = *self.since.get_or_insert(now);
        ensure!(
            now - since < MESSAGE_LIMIT,
            "no completion after {MESSAGE_LIMIT}: {UNREACHED}"
        );
        Ok(())
    }
}

const _: () = assert!(MAX_POST_LIST <= DEPTH);
