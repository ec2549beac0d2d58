//! Each experiment finds the assumption that it is about, and no other: on simulated cards that differ
//! from the usual one in one choice.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use e810::{Doubled, Quirks};
use e810_card::selftest::{Findings, Line, Outcome, Verdict};
use e810_node::simulated::start;
use e810_node::start::Start;
use e810_selftest::{Bench, EXPERIMENTS, run};
use e810_sim::{Mode, Profile, Sim, Variation};

fn card(variation: Variation) -> Sim {
    let builder = Sim::builder().seed(3).mode(Mode::Virtual);
    let builder = builder.profile(Profile::small()).cold();
    builder.variation(variation).build()
}

fn results(variation: Variation) -> Vec<Outcome> {
    let function = card(variation).function(0);
    let start = start(&function, 1500);
    let bench = Bench::new(function, start).unwrap();
    run(&bench, EXPERIMENTS, &mut |_, _| Ok(())).unwrap()
}

/// The simulated card that the file of these outcomes makes.
fn twin(outcomes: &[Outcome]) -> Variation {
    let begin = Line::begin("test", "sim");
    let lines = outcomes.iter().cloned().map(Line::Outcome);
    let lines = [begin].into_iter().chain(lines);
    let text: Vec<String> = lines
        .map(|line| serde_json::to_string(&line).unwrap())
        .collect();
    let findings = Findings::parse(text.join("\n").as_bytes()).unwrap();
    let mut variation = Variation::default();
    for (name, value) in findings.iter() {
        variation.choose(name, value).unwrap();
    }
    variation
}

fn is_decided(choice: &str) -> bool {
    EXPERIMENTS
        .iter()
        .any(|experiment| experiment.name == choice)
}

#[test]
fn all_assumptions_hold_on_the_usual_card() {
    for outcome in results(Variation::default()) {
        assert_eq!(outcome.verdict, Verdict::Holds, "{outcome:?}");
    }
}

/// The twin of each of these cards differs from the usual one in the same choice.
#[test]
fn each_experiment_finds_its_own_choice_and_no_other() {
    let usual = results(Variation::default());
    for (what, variation) in Variation::each_alone() {
        let (choice, value) = what.split_once('=').unwrap();
        let found = results(variation);
        for (outcome, before) in found.iter().zip(&usual) {
            if outcome.name == choice {
                assert_eq!(outcome.verdict, Verdict::Differs, "{what}: {outcome:?}");
                assert_eq!(outcome.value.as_deref(), Some(value), "{what}: {outcome:?}");
            } else {
                assert_eq!(outcome, before, "{what}");
            }
        }
        if is_decided(choice) {
            assert_eq!(twin(&found), variation, "{what}");
        }
    }
}

/// With its quirk the driver makes up for a card whose timers are twice as slow.
#[test]
fn a_quirk_makes_up_for_what_differs() {
    let mut variation = Variation::default();
    variation.choose("itr_unit", "Double").unwrap();
    let function = card(variation).function(0);
    let mut start = start(&function, 1500);
    if let Start::Cold { quirks, .. } = &mut start {
        *quirks = Quirks {
            doubled_units: Doubled {
                timers: true,
                rate: false,
            },
            ..Quirks::NONE
        };
    }
    let bench = Bench::new(function, start).unwrap();
    let timed: Vec<_> = EXPERIMENTS
        .iter()
        .filter(|experiment| experiment.name == "itr_unit")
        .copied()
        .collect();
    let found = run(&bench, &timed, &mut |_, _| Ok(())).unwrap();
    let verdicts: Vec<_> = found.iter().map(|outcome| outcome.verdict).collect();
    assert_eq!(verdicts, [Verdict::Holds]);
}

#[test]
fn experiments_are_choices_of_the_simulator_with_its_values() {
    for experiment in EXPERIMENTS {
        let choice = Variation::CHOICES
            .iter()
            .find(|choice| choice.name == experiment.name)
            .unwrap_or_else(|| panic!("{} is no choice", experiment.name));
        assert_eq!(choice.values, experiment.values, "{}", experiment.name);
    }
    let mut names: Vec<_> = EXPERIMENTS.iter().map(|known| known.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), EXPERIMENTS.len(), "a name is there twice");
}
