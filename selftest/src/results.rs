//! Performs experiments, and keeps what they have found.

use anyhow::Result;
use e810_card::selftest::{Outcome, Verdict};

use crate::bench::Bench;
use crate::experiment::{Experiment, Seen};

fn outcome_of(experiment: &Experiment, seen: Result<Seen>) -> Outcome {
    let name = experiment.name.to_owned();
    match seen {
        Ok(Seen::Value(value)) => Outcome {
            name,
            verdict: if value == experiment.assumed() {
                Verdict::Holds
            } else {
                Verdict::Differs
            },
            value: Some(value.to_owned()),
            note: String::new(),
        },
        Ok(Seen::Other(note)) => Outcome {
            name,
            verdict: Verdict::Differs,
            value: None,
            note,
        },
        Err(error) => Outcome {
            name,
            verdict: Verdict::NotTried,
            value: None,
            note: format!("{error:#}"),
        },
    }
}

/// Performs `experiments` one after the other. `observe` is called with each before it begins, and with
/// what it found when it has ended. After one that leaves a function which does not come back from its
/// reset, the others are not tried.
pub fn run(
    bench: &Bench,
    experiments: &[Experiment],
    observe: &mut dyn FnMut(&Experiment, Option<&Outcome>),
) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let mut is_gone = None;
    for experiment in experiments {
        observe(experiment, None);
        let seen = match &is_gone {
            Some(why) => Err(anyhow::anyhow!("{why}")),
            None => (experiment.run)(bench),
        };
        let outcome = outcome_of(experiment, seen);
        if outcome.verdict == Verdict::NotTried
            && is_gone.is_none()
            && let Err(error) = bench.reset()
        {
            is_gone = Some(format!("after {}: {error:#}", experiment.name));
        }
        observe(experiment, Some(&outcome));
        outcomes.push(outcome);
    }
    outcomes
}
