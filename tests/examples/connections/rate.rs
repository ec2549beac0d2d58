//! How many connections are made in a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::pair::Pair;
use super::side::Side;

/// Numbers come back after TIMEWAIT: what is measured begins then.
const WARM: Duration = Duration::from_secs(2);

pub(crate) fn run(seconds: u32, at_once: usize, qps: u32) {
    let mut pair = Pair::new(qps, false);
    let commands = pair.sides.each_ref().map(|side| side.control.commands());
    let there = pair.there;
    let mut asked = 0;
    let mut run_for = |side: &mut Side, time: Duration, before: usize| {
        let began = Instant::now();
        while began.elapsed() < time {
            let done = before + side.done.setups.len() + side.done.refused as usize;
            if asked - done < at_once {
                asked += usize::from(side.ask(there));
            }
            side.turn();
        }
        began.elapsed()
    };
    let is_over = AtomicBool::new(false);
    let [active, passive] = &mut pair.sides;
    let (warm, elapsed) = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                passive.turn();
            }
        });
        run_for(active, WARM, 0);
        let warm = active.done.setups.len();
        active.done.setups.clear();
        active.done.no_queue_pair = 0;
        let elapsed = run_for(active, Duration::from_secs(seconds.into()), warm);
        is_over.store(true, Ordering::Relaxed);
        (warm, elapsed)
    });
    let count = active.done.setups.len();
    println!(
        "{:.0} connections/s: {count} in {elapsed:.1?}, {} refused; {} times no queue pair was left, since {} of \
         {qps} were in TIMEWAIT or in use",
        count as f64 / elapsed.as_secs_f64(),
        active.done.refused,
        active.done.no_queue_pair,
        active.connections.len(),
    );
    active.done.setups.sort();
    let at = |share: f64| active.done.setups[(count as f64 * share) as usize];
    println!(
        "set-up, until the active side is in RTS: p50 {:.1?}, p99 {:.1?} ({at_once} at once)",
        at(0.5),
        at(0.99),
    );
    let all = (warm + count) as f64;
    for (n, side) in pair.sides.iter_mut().enumerate() {
        let counters = *side.manager.machine().counters();
        println!(
            "{}: {:.2} CQP commands, {:.2} datagrams sent and {} repeated, of all connections",
            ["active", "passive"][n],
            (side.control.commands() - commands[n]) as f64 / all,
            counters.sent.iter().sum::<u64>() as f64 / all,
            counters.repeated,
        );
    }
    pair.close();
}
