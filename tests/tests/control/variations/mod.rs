//! What no source says of the card, every way: the driver comes up, passes messages, survives
//! failures and gives everything back on a card with each choice of [`Variation`] made otherwise,
//! and on cards whose choices are all drawn by a seed.

use std::collections::BTreeSet;

use e810_sim::{Profile, Sim, SimPlatform, Variation};
use e810_tests::traffic::scenarios::scenarios;
use e810_tests::traffic::{Pair, Watched};

/// Seeds that all choices together are drawn from.
const SEEDS: u64 = 64;

/// What a card is tried with: one start of both functions each. They pass every choice of the
/// table: messages of both services, groups, events, keys, and failures of every kind.
const TRIED: [&str; 8] = [
    "sizes around a packet",
    "tagged datagrams",
    "groups",
    "every completion error",
    "a drained send queue",
    "several queues on a channel",
    "queue pairs that end with nothing posted",
    "an unknown sender",
];

fn card(seed: u64, variation: Variation) -> Sim {
    let builder = Sim::builder().seed(seed).functions(2).cold();
    builder
        .profile(Profile::small())
        .variation(variation)
        .build()
}

/// Runs the scenarios called `names`, one after the other on the same card: from the second on it
/// is a used one.
fn try_card(what: &str, sim: &Sim, names: &[&str]) {
    let mut tried = 0;
    for scenario in scenarios::<Watched<SimPlatform>>() {
        if !names.contains(&scenario.name) {
            continue;
        }
        println!("{what}: {}", scenario.name);
        let mut pair = Pair::cold(sim, scenario.setup);
        (scenario.run)(&mut pair);
        pair.finish(sim);
        tried += 1;
    }
    assert_eq!(tried, names.len(), "scenarios that are no longer there");
}

#[test]
fn the_usual_card() {
    try_card("usual", &card(1, Variation::default()), &TRIED);
}

/// Bring-up and traffic on cards with other limits, and with objects smaller than this model's
/// contexts.
#[test]
fn the_larger_profiles() {
    for profile in [Profile::card(), Profile::e810c()] {
        let sim = Sim::builder().seed(1).functions(2).cold();
        let sim = sim.profile(profile).build();
        try_card(&format!("{profile:?}"), &sim, &TRIED);
    }
}

#[test]
fn each_choice_alone() {
    for (seed, (what, variation)) in (2..).zip(Variation::each_alone()) {
        try_card(&what, &card(seed, variation), &TRIED);
    }
}

/// Two scenarios a seed, so that all of them meet many cards.
#[test]
fn all_choices_together() {
    let mut drawn = BTreeSet::new();
    for seed in 0..SEEDS {
        let variation = Variation::drawn(seed);
        drawn.extend(variation.values());
        let first = seed as usize % TRIED.len();
        let second = (first + 1 + seed as usize / TRIED.len() % (TRIED.len() - 1)) % TRIED.len();
        let what = format!("seed {seed}, {variation:?}");
        let names = [first, second].map(|index| TRIED.get(index).copied().unwrap_or_default());
        try_card(&what, &card(seed, variation), &names);
    }
    let values: BTreeSet<_> = Variation::CHOICES
        .iter()
        .flat_map(|choice| choice.values.iter().map(|value| (choice.name, *value)))
        .collect();
    assert_eq!(drawn, values, "a choice that is never drawn both ways");
}
