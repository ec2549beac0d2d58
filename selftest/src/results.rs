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

/// A line of the file that results are kept in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Line {
    /// The first line.
    Selftest {
        /// Version of the format.
        version: u32,
        /// The program that wrote it, with its version.
        program: String,
        /// The function, as the program's user named it.
        device: String,
    },
    /// An experiment begins.
    Begins {
        /// Its name.
        name: String,
    },
    /// It has ended.
    Outcome(Outcome),
}

/// The format that this program writes, and the newest that it reads.
const VERSION: u32 = 1;

impl Line {
    /// The first line.
    #[must_use]
    pub fn begin(program: &str, device: &str) -> Self {
        Self::Selftest {
            version: VERSION,
            program: program.to_owned(),
            device: device.to_owned(),
        }
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
        let outcome = Outcome::of(experiment, seen);
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
