//! Each experiment finds the assumption that it is about, and no other: on simulated cards that differ
//! from the usual one in one choice.

use e810_node::simulated::start;
use e810_selftest::{Bench, EXPERIMENTS, Outcome, Verdict, run};
use e810_sim::{Mode, Profile, Sim, Variation};

fn results(variation: Variation) -> Vec<Outcome> {
    let sim = Sim::builder()
        .seed(3)
        .mode(Mode::Virtual)
        .profile(Profile::small())
        .cold()
        .variation(variation)
        .build();
    let function = sim.function(0);
    let start = start(&function, 1500);
    let bench = Bench::new(function, start).unwrap();
    run(&bench, EXPERIMENTS, &mut |_, _| {})
}

/// Experiments that two choices change: no software can tell them apart.
fn follows(experiment: &str, choice: &str) -> bool {
    experiment == choice
}

#[test]
fn all_assumptions_hold_on_the_usual_card() {
    for outcome in results(Variation::default()) {
        assert_eq!(outcome.verdict, Verdict::Holds, "{outcome:?}");
    }
}

#[test]
fn each_experiment_finds_its_own_choice_and_no_other() {
    let usual = results(Variation::default());
    for (what, variation) in Variation::each_alone() {
        let (choice, value) = what.split_once('=').unwrap();
        for (outcome, before) in results(variation).iter().zip(&usual) {
            if follows(&outcome.name, choice) {
                assert_eq!(outcome.verdict, Verdict::Differs, "{what}: {outcome:?}");
                assert_eq!(outcome.value.as_deref(), Some(value), "{what}: {outcome:?}");
            } else {
                assert_eq!(outcome, before, "{what}");
            }
        }
    }
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
}
