//! Random schedules of a program that sleeps: prints what became of them.
//!
//! `cargo run --release -p e810-tests --example wakeups -- [SCHEDULES]`
//!
//! At least so many in all, as many of each kind.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use e810::Notify;
use e810_sim::variation::ClearPba;
use e810_sim::{Sim, Variation};
use e810_tests::wakeups::Schedules;

/// Schedules of each kind of program and each meaning of CLEARPBA.
fn count() -> u64 {
    let word = std::env::args().nth(1);
    let all: u64 = word.and_then(|word| word.parse().ok()).unwrap_or(1_000_000);
    all.div_ceil(6)
}

fn main() {
    let kinds: [(&str, &'static [Notify]); 3] = [
        ("any", &[Notify::Any]),
        ("solicited", &[Notify::Solicited]),
        ("both", &[Notify::Any, Notify::Solicited]),
    ];
    println!(
        "{:<10} {:<6} {:>9} {:>11} {:>9} {:>9} {:>8} {:>9} {:>10} {:>10} {:>8}",
        "asks for",
        "pba",
        "schedules",
        "completions",
        "requests",
        "PFPE_CQARM",
        "events",
        "at once",
        "slept over",
        "not asked",
        "surplus"
    );
    let mut wrong = 0;
    for (seed, (name, requests)) in (1..).zip(kinds) {
        for (pba, meaning) in [("keeps", ClearPba::Keeps), ("drops", ClearPba::Drops)] {
            let sim = Sim::builder().functions(2).seed(seed).variation(Variation {
                clear_pba: meaning,
                ..Variation::default()
            });
            let mut schedules = Schedules::new(sim.build(), seed, requests);
            (0..count()).for_each(|_| schedules.run_one());
            let (tally, stats) = (schedules.tally(), schedules.stats());
            println!(
                "{name:<10} {pba:<6} {:>9} {:>11} {:>9} {:>9} {:>8} {:>9} {:>10} {:>10} {:>8}",
                tally.schedules,
                tally.completions,
                tally.requests,
                stats.arms,
                tally.events,
                stats.events_at_once + stats.solicited_at_once,
                tally.slept_over,
                tally.unasked,
                tally.surplus
            );
            wrong += tally.slept_over + tally.unasked;
            schedules.finish();
        }
    }
    assert_eq!(wrong, 0, "completions slept over, or events not asked for");
}
