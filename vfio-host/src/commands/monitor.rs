//! `e810 monitor`: live state and rates of functions, of another process or of a load that it makes
//! itself.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use e810::{Adaptive, CqModeration};
use e810_backends::signals::Signals;

use super::perf::{DiscardRows, Measure};
use crate::cli::{MonitorArgs, PairArgs};
use crate::measure::perf::{Plan, Test};
use crate::monitor::{Client, MonitorRegistry, Snapshot, View, print, print_within};
use crate::output::ending::Steps;
use crate::output::{json, terminal};
use crate::pci_functions::workload;
use crate::settings::ModerationArg;
use crate::stop::Stop;
use crate::usage::refuse;

/// Time that functions have for an answer.
const LIMIT: Duration = Duration::from_secs(2);
/// Time between two checks of a run that is still starting.
const STARTING: Duration = Duration::from_millis(10);
/// Messages of a run on each queue pair; the load can stop between two runs.
const ROUND: u64 = 4_096;

/// Runs the command.
///
/// # Errors
/// No function to monitor, a message that failed, or options that do not fit together.
pub fn run(args: &MonitorArgs, out: &mut dyn Write) -> Result<()> {
    let mut show = Show::new(args, out);
    match &args.at {
        Some(path) => {
            let mut client = Client::connect(path).context("--at")?;
            // The functions belong to the other process, so this one may end at any time.
            let pause = |time| {
                thread::sleep(time);
                Ok(true)
            };
            show.all(pause, || client.snapshot())
        }
        None => load(args, &mut show),
    }
}

/// Runs a load and monitors it.
fn load(args: &MonitorArgs, show: &mut Show<'_>) -> Result<()> {
    if args.pair.virtual_time {
        refuse!("--virtual: rates need real time; leave it out");
    }
    if args.pair.rendezvous.listen.is_some() || args.pair.rendezvous.connect.is_some() {
        refuse!(
            "--listen, --connect: for two processes use `e810 perf --monitor PATH`, and `e810 monitor --at PATH`"
        );
    }
    let adaptive = ModerationArg(CqModeration::Adaptive(Adaptive::Load));
    let pair = PairArgs {
        events: true,
        moderation: args.pair.moderation.or(Some(adaptive)),
        ..args.pair.clone()
    };
    // The functions are ours and must be shut down cleanly.
    let signals = Signals::stop_and(&[])?;
    let plan = Plan {
        op: args.op,
        test: Test::Bandwidth,
        sizes: vec![args.size],
        qps: args.qps as usize,
        depth: args.depth,
        inline: 0,
        post_list: 1,
        iterations: ROUND,
        duration: None,
        seed: pair.seed,
        check: false,
        wait_mode: pair.wait_mode()?,
        tuning: pair.tuning.values(),
    };
    plan.check_queues()?;
    let served = workload::registry(pair.monitor.as_deref(), "monitor")?;
    let registry = match &served {
        Some((registry, _)) => registry.clone(),
        None => MonitorRegistry::new("monitor"),
    };
    let stop = AtomicBool::new(false);
    let job = Measure {
        pair: &pair,
        plan: &plan,
        registry: Some(&registry),
        until: Some(&stop),
        // A signal ends the monitoring, which ends the messages.
        stop: &Stop::default(),
        rows: &DiscardRows,
    };
    thread::scope(|scope| {
        let running = thread::Builder::new()
            .name("messages".to_owned())
            .spawn_scoped(scope, || workload::run(&pair, &job).map(drop))?;
        let shown = wait_for(&registry, &running).and_then(|()| {
            let pause = |time| Ok(signals.wait_for(time)?.is_none());
            show.all(pause, || {
                let snapshot = registry.snapshot(LIMIT);
                // A run without functions has ended.
                let is_over = snapshot.functions.is_empty() && snapshot.silent.is_empty();
                Ok((!is_over).then_some(snapshot))
            })
        });
        stop.store(true, Ordering::Relaxed);
        let ended = running
            .join()
            .unwrap_or_else(|_| Err(anyhow!("the thread that sends the messages panicked")));
        let mut steps = Steps::default();
        steps.note(ended);
        steps.note(shown);
        steps.end()
    })
}

/// Waits until there are functions to monitor, or the run has ended.
fn wait_for(registry: &MonitorRegistry, running: &ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    // A bring-up has its own time limit.
    while registry.functions() < 2 && !running.is_finished() {
        thread::sleep(STARTING);
    }
    Ok(())
}

/// Prints views.
struct Show<'a> {
    out: &'a mut dyn Write,
    json: bool,
    interval: Duration,
    /// Views that are left to print; `None`: no limit.
    left: Option<u64>,
    /// On a terminal each view replaces the one before.
    over: bool,
    /// A view was printed before.
    shown: bool,
    /// How long it monitors.
    duration: Option<Duration>,
}

impl<'a> Show<'a> {
    fn new(args: &MonitorArgs, out: &'a mut dyn Write) -> Self {
        let left = match args.once {
            true => Some(1),
            false => args.count,
        };
        Self {
            out,
            json: args.json,
            interval: Duration::from_millis(args.interval),
            left,
            over: !args.json && left != Some(1) && terminal::size().is_some(),
            shown: false,
            duration: args.duration.map(|time| Duration::from_nanos(time.0)),
        }
    }

    /// Prints a view of each snapshot until `take_snapshot` returns none, all views are printed, or
    /// a pause returns false.
    fn all(
        &mut self,
        pause: impl Fn(Duration) -> Result<bool>,
        mut take_snapshot: impl FnMut() -> Result<Option<Snapshot>>,
    ) -> Result<()> {
        let mut before = take_snapshot()?.context("it ended before there was anything to show")?;
        // The duration counts from the first snapshot, without the bring-up.
        let end = self.duration.map(|duration| Instant::now() + duration);
        let is_over = || end.is_some_and(|end| Instant::now() >= end);
        while self.left != Some(0) && !is_over() && pause(self.interval)? {
            let Some(snapshot) = take_snapshot()? else {
                return Ok(());
            };
            self.one(&View::between(&before, &snapshot))?;
            self.left = self.left.map(|left| left - 1);
            before = snapshot;
        }
        Ok(())
    }

    fn one(&mut self, view: &View) -> Result<()> {
        if self.json {
            json::write_line(self.out, "monitor", view)?;
            return Ok(self.out.flush()?);
        }
        match (self.over, self.shown) {
            // Go to the upper left corner and clear the screen, however lines were wrapped.
            (true, _) => write!(self.out, "\x1b[H\x1b[J")?,
            (false, true) => writeln!(self.out)?,
            (false, false) => {}
        }
        self.shown = true;
        match terminal::size_now().filter(|_| self.over) {
            Some(size) => print_within(view, size, self.out)?,
            None => print(view, self.out)?,
        }
        Ok(self.out.flush()?)
    }
}
