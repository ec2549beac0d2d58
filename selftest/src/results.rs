//! Performs experiments, and keeps what they have found.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::bench::Bench;
use crate::experiment::{Experiment, Seen};

/// What became of an assumption.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The card does what is assumed.
    Holds,
    /// It does something else.
    Differs,
    /// The experiment did not get so far.
    NotTried,
}

/// What one experiment has found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The experiment's name.
    pub name: String,
    /// What became of its assumption.
    pub verdict: Verdict,
    /// The value that was seen, if it is one of the experiment's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What else was seen, or why the experiment ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Outcome {
    fn of(experiment: &Experiment, seen: Result<Seen>) -> Self {
        let name = experiment.name.to_owned();
        match seen {
            Ok(Seen::Value(value)) => Self {
                name,
                verdict: if value == experiment.assumed() {
                    Verdict::Holds
                } else {
                    Verdict::Differs
                },
                value: Some(value.to_owned()),
                note: String::new(),
            },
            Ok(Seen::Other(note)) => Self {
                name,
                verdict: Verdict::Differs,
                value: None,
                note,
            },
            Err(error) => Self {
                name,
                verdict: Verdict::NotTried,
                value: None,
                note: format!("{error:#}"),
            },
        }
    }
}

/// What several experiments have found on one card.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// In the order in which they were performed.
    pub outcomes: Vec<Outcome>,
}

/// Performs `experiments` one after the other. `observe` is called with each before it begins, and with
/// what it found when it has ended. After one that leaves a function which does not come back from its
/// reset, the others are not tried.
pub fn run(
    bench: &Bench,
    experiments: &[Experiment],
    observe: &mut dyn FnMut(&Experiment, Option<&Outcome>),
) -> Results {
    let mut results = Results::default();
    let mut is_gone = None;
    for experiment in experiments {
        observe(experiment, None);
        let seen = match &is_gone {
            Some(why) => Err(anyhow::anyhow!("{why}")),
            None => (experiment.run)(bench),
        };
        let outcome = Outcome::of(experiment, seen);
        if outcome.verdict == Verdict::NotTried
            && is_gone.is_none()
            && let Err(error) = bench.reset()
        {
            is_gone = Some(format!("after {}: {error:#}", experiment.name));
        }
        observe(experiment, Some(&outcome));
        results.outcomes.push(outcome);
    }
    results
}
