//! Nanoseconds of the provider library and of our data path, on equal rings in
//! one process, repetitions taken in turn.
//!
//! `tests/peer/run bench`. Every figure includes the caller's loop and 1/64 of
//! reading the clock twice, the same for all. Doorbells are plain stores and
//! completions are in the cache: a card adds to both alike.

use std::time::Instant;

use e810_peer::Library;
use e810_peer::contest::{
    BATCH, Contestant, LibrarySide, OurSide, ROWS, Row, VerbsSide, batch, rehearse,
};

/// Batches of a repetition.
const BATCHES: usize = 4000;
/// Repetitions of each contestant.
const REPETITIONS: usize = 41;
/// What our time under the lock shall be of the library's.
const GOAL: f64 = 0.6;

/// Nanoseconds of an operation in one repetition.
fn repetition(row: Row, side: &mut dyn Contestant) -> Option<f64> {
    let mut total = 0u128;
    for _ in 0..BATCHES {
        let good = batch(row, side, &mut |side, phase| {
            let start = Instant::now();
            let good = phase(side, row);
            total += start.elapsed().as_nanos();
            good
        });
        if !good {
            return None;
        }
    }
    Some(total as f64 / (BATCHES * BATCH) as f64)
}

/// Least and median.
fn summary(figures: &mut [f64]) -> (f64, f64) {
    figures.sort_by(f64::total_cmp);
    let at = |n: usize| figures.get(n).copied().unwrap_or(f64::NAN);
    (at(0), at(figures.len() / 2))
}

fn main() {
    let library = match Library::load() {
        Ok(library) => library,
        Err(why) => return println!("{why}"),
    };
    let library = match LibrarySide::new(&library) {
        Ok(side) => side,
        Err(why) => return println!("{why}"),
    };
    let mut sides: [Box<dyn Contestant>; 4] = [
        Box::new(library),
        Box::new(OurSide::<false>::new()),
        Box::new(OurSide::<true>::new()),
        Box::new(VerbsSide::default()),
    ];
    for side in &mut sides {
        assert!(rehearse(side.as_mut()), "{} works", side.name());
    }
    println!(
        "| operation, ns: min (median) | library | e810 | e810, locked | locked / library | goal {GOAL} | verbs | verbs / library |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for &(name, row) in ROWS {
        let mut figures = [const { Vec::new() }; 4];
        for n in 0..=REPETITIONS {
            for turn in 0..sides.len() {
                let at = (n + turn) % sides.len();
                let (Some(side), Some(figures)) = (sides.get_mut(at), figures.get_mut(at)) else {
                    continue;
                };
                let figure = repetition(row, side.as_mut());
                let figure = figure.unwrap_or_else(|| unreachable!("{} does {name}", side.name()));
                // The first one warms up.
                if n > 0 {
                    figures.push(figure);
                }
            }
        }
        let [library, ours, locked, verbs] = figures.each_mut().map(|figures| summary(figures));
        let (least, median) = (locked.0 / library.0, locked.1 / library.1);
        // Medians are another tenant's as much as ours when the machine is busy.
        let met = if least <= GOAL { "met" } else { "**not met**" };
        let by_verbs = verbs.0 / library.0;
        let [library, ours, locked, verbs] = [library, ours, locked, verbs]
            .map(|(least, median)| format!("{least:.1} ({median:.1})"));
        println!(
            "| {name} | {library} | {ours} | {locked} | {least:.2} ({median:.2}) | {met} | {verbs} | {by_verbs:.2} |"
        );
    }
}
