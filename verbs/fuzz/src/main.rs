//! Runs sequences of calls: `verbs-calls --seed N --calls N --threads N --library FILE`; with
//! `--rdmacm` those of librdmacm's functions.

// UNSAFETY: none of its own.

#![expect(clippy::expect_used, reason = "what is wrong ends it")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use e810_verbs_fuzz::campaign::{Campaign, prepare, report};
use e810_verbs_fuzz::cm;
use e810_verbs_fuzz::run::{Apis, name_of};

fn main() -> ExitCode {
    let (mut seed, mut calls, mut threads) = (1, 100_000, 1);
    let mut library: Option<PathBuf> = None;
    let (mut counts, mut is_cm) = (false, false);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = |words: &mut dyn Iterator<Item = String>| words.next().expect("a value");
        let number = |text: String| text.parse().expect("a number");
        match word.as_str() {
            "--seed" => seed = number(value(&mut words)),
            "--calls" => calls = number(value(&mut words)),
            "--threads" => threads = number(value(&mut words)),
            "--library" => library = Some(value(&mut words).into()),
            "--counts" => counts = true,
            "--rdmacm" => is_cm = true,
            other => {
                eprintln!(
                    "{other}: --seed N, --calls N, --threads N, --library FILE, --counts, --rdmacm"
                );
                return ExitCode::from(2);
            }
        }
    }
    prepare();
    let api = match &library {
        None => Apis::linked(),
        Some(path) => Apis::loaded(path).expect("the library"),
    };
    println!("seed {seed}, {calls} calls, {threads} threads");
    let began = Instant::now();
    let campaign = Campaign {
        api,
        seed,
        calls,
        threads,
        is_linked: library.is_none(),
    };
    let tally = match is_cm {
        true => cm::campaign::run(&campaign),
        false => campaign.run(),
    };
    println!("{:.1} s", began.elapsed().as_secs_f64());
    if counts {
        let counts = tally.calls.iter().zip(&tally.good);
        for (place, (calls, good)) in counts.enumerate().filter(|(_, (calls, _))| **calls > 0) {
            let name = name_of(place);
            println!("{name:40} {calls:10} {good:10}");
        }
    }
    let reported = match is_cm {
        true => cm::campaign::report(&tally),
        false => report(&tally),
    };
    // A short run cannot reach everything; a replayed sequence is one.
    match reported {
        Err(why) if calls >= 100_000 => {
            println!("FAILED: {why}");
            ExitCode::FAILURE
        }
        Err(why) => {
            println!("{why}");
            ExitCode::SUCCESS
        }
        Ok(()) => ExitCode::SUCCESS,
    }
}
