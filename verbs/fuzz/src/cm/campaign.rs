//! Sequences one after the other, or in several threads on the same functions.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use e810_rdmacm::abi::event;

use super::api::{EXPORTED, Sym};
use super::engine::CmEngine;
use crate::api::SYMBOLS;
use crate::campaign::{Campaign, held, inspect};
use crate::draw::Draw;
use crate::run::{Run, Symbol as _, Tally};

/// Calls of a sequence, about.
const SEQUENCE: u64 = 3000;

/// Names behind which there is nothing: they refuse.
const NOTHING: &[Sym] = &[
    Sym::raccept,
    Sym::rbind,
    Sym::rclose,
    Sym::rconnect,
    Sym::create_srq,
    Sym::create_srq_ex,
    Sym::rfcntl,
    Sym::rgetpeername,
    Sym::rgetsockname,
    Sym::rgetsockopt,
    Sym::riomap,
    Sym::riounmap,
    Sym::riowrite,
    Sym::rlisten,
    Sym::rread,
    Sym::rreadv,
    Sym::rrecv,
    Sym::rrecvfrom,
    Sym::rrecvmsg,
    Sym::rsend,
    Sym::rsendmsg,
    Sym::rsendto,
    Sym::rsetsockopt,
    Sym::rshutdown,
    Sym::rsocket,
    Sym::rwrite,
    Sym::rwritev,
];

/// Kinds of events that a campaign has to see.
const EVENTS: &[i32] = &[
    event::ADDR_RESOLVED,
    event::ADDR_ERROR,
    event::ROUTE_RESOLVED,
    event::CONNECT_REQUEST,
    event::CONNECT_RESPONSE,
    event::UNREACHABLE,
    event::REJECTED,
    event::ESTABLISHED,
    event::DISCONNECTED,
    event::MULTICAST_JOIN,
    event::TIMEWAIT_EXIT,
];

/// How many descriptors the process has.
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Runs a campaign of librdmacm's functions.
#[must_use]
pub fn run(campaign: &Campaign) -> Tally {
    let mut tally = Tally::default();
    let mut seed = campaign.seed;
    // The first sequence brings the functions up, and leaves what they keep.
    let (mut before, mut open) = (Vec::new(), None);
    let mut printed = Instant::now();
    while tally.of_cm() < campaign.calls {
        let runs = sequence(campaign, seed);
        let first = runs.first().expect("one");
        if campaign.is_linked {
            inspect(first, &before);
            before = held();
        }
        no_more_descriptors(first, *open.get_or_insert_with(descriptors));
        for run in &runs {
            tally.add(&run.tally);
        }
        seed += 1;
        if printed.elapsed() > Duration::from_secs(30) {
            printed = Instant::now();
            println!("{} calls of librdmacm, seed {seed}", tally.of_cm());
        }
    }
    tally
}

/// Ends the process if there are more than before. Threads that resolve addresses have some, for a
/// while.
fn no_more_descriptors(run: &Run, before: usize) {
    let since = Instant::now();
    while descriptors() > before {
        if since.elapsed() > Duration::from_secs(10) {
            run.fail(&format!("{} descriptors, not {before}", descriptors()));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// A sequence of each thread.
fn sequence(campaign: &Campaign, seed: u64) -> Vec<Run> {
    let of_thread = |thread: u64| {
        let draw = Draw::seeded(seed ^ thread << 48);
        let mut engine = CmEngine::new(Run::new(campaign.api, draw, seed), thread);
        engine.begin();
        while engine.run.tally.of_cm() < SEQUENCE {
            engine.step();
        }
        engine.end();
        engine.run
    };
    thread::scope(|scope| {
        let of_thread = &of_thread;
        let threads: Vec<_> = (0..campaign.threads.max(1))
            .map(|thread| scope.spawn(move || of_thread(thread)))
            .collect();
        let runs = threads.into_iter().map(|thread| thread.join());
        runs.map(|run| run.expect("a thread that ends")).collect()
    })
}

/// What a campaign reached, and what it has to.
///
/// # Errors
/// What it did not.
pub fn report(tally: &Tally) -> Result<(), String> {
    let first = SYMBOLS.len();
    let (calls, good) = (&tally.calls[first..], &tally.good[first..]);
    let share = good.iter().sum::<u64>() * 100 / tally.of_cm().max(1);
    println!(
        "{} calls of librdmacm, {share} % of them successful; {} messages within a function, {} between two; events {:?}",
        tally.of_cm(),
        tally.transfers[0],
        tally.transfers[1],
        tally.events,
    );
    let never = |counts: &[u64], name: usize| counts.get(name) == Some(&0);
    let mut missed: Vec<String> = Vec::new();
    for (at, name) in EXPORTED.iter().enumerate() {
        let has_nothing = NOTHING.iter().any(|symbol| symbol.place() == first + at);
        if never(calls, at) {
            missed.push((*name).to_owned());
        } else if !has_nothing && never(good, at) {
            missed.push(format!("{name}, successfully"));
        }
    }
    let unseen = EVENTS
        .iter()
        .filter(|kind| !tally.events.contains_key(kind));
    missed.extend(unseen.map(|kind| format!("event {kind}")));
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!("never reached: {}", missed.join(", "))),
    }
}
