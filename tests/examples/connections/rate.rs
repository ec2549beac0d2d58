//! How many connections are made in a second.

use std::time::{Duration, Instant};

use super::pair::Pair;

/// Numbers come back after TIMEWAIT: what is measured begins then.
const WARM: Duration = Duration::from_secs(2);

pub(crate) fn run(seconds: u32, at_once: usize, qps: u32) {
    let mut pair = Pair::new(qps, false);
    let commands = pair.sides.each_ref().map(|side| side.control.commands());
    let mut asked = 0;
    let mut run_for = |pair: &mut Pair, time: Duration, before: usize| {
        let began = Instant::now();
        while began.elapsed() < time {
            if asked - before - pair.done.setups.len() < at_once {
                asked += usize::from(pair.ask());
            }
            pair.turn();
        }
        began.elapsed()
    };
    run_for(&mut pair, WARM, 0);
    let warm = pair.done.setups.len();
    pair.done.setups.clear();
    pair.done.no_queue_pair = 0;
    let elapsed = run_for(&mut pair, Duration::from_secs(seconds.into()), warm);
    let count = pair.done.setups.len();
    println!(
        "{:.0} connections/s: {count} in {elapsed:.1?}, {} refused; {} times no queue pair was left, since \
         {} of {qps} on each side are in TIMEWAIT or in use",
        count as f64 / elapsed.as_secs_f64(),
        pair.done.refused,
        pair.done.no_queue_pair,
        pair.sides[0].connections.len(),
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
    pair.done.setups.sort();
    let at = |share: f64| pair.done.setups[(count as f64 * share) as usize];
    println!(
        "set-up, until the active side is in RTS: p50 {:.1?}, p99 {:.1?} ({at_once} at once)",
        at(0.5),
        at(0.99),
    );
    pair.close();
}
