//! Performs experiments, and keeps what they have found.

use anyhow::{Context as _, Result};
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
/// what it found when it has ended; an error of it ends the run. After an experiment that leaves a function
/// which does not come back from its reset, the others are not tried.
///
/// # Errors
/// Those of `observe`, and why the function does not come back.
pub fn run(
    bench: &Bench,
    experiments: &[Experiment],
    observe: &mut dyn FnMut(&Experiment, Option<&Outcome>) -> Result<()>,
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for experiment in experiments {
        observe(experiment, None)?;
        let mut outcome = outcome_of(experiment, (experiment.run)(bench));
        if outcome.verdict == Verdict::NotTried && bench.has_no_link() {
            outcome.note.push_str(" (the port has no link)");
        }
        let is_back = match outcome.verdict {
            Verdict::NotTried => bench.reset(),
            Verdict::Holds | Verdict::Differs => Ok(()),
        };
        observe(experiment, Some(&outcome))?;
        is_back.with_context(|| format!("after {}", experiment.name))?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}
