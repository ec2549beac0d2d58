//! What an experiment is.

use std::fmt;

use anyhow::Result;

use crate::bench::Bench;

/// What an experiment does to others. All of them reset the function, which opening it does, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Risk {
    /// Nothing: it works with the function that was opened, and with nothing else.
    None,
    /// All functions of the card are reset.
    ResetsCard,
}

impl Risk {
    /// How it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ResetsCard => "card",
        }
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an experiment has seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// One of the experiment's values.
    Value(&'static str),
    /// Something else.
    Other(String),
}

/// A question to a card.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name, which is that of the simulator's choice.
    pub name: &'static str,
    /// What is assumed, in one sentence.
    pub assumes: &'static str,
    /// What is done, in one sentence.
    pub does: &'static str,
    /// What can be seen, the assumed behaviour first: the values of the choice.
    pub values: &'static [&'static str],
    /// What follows if the card does otherwise, and what helps.
    pub if_not: &'static str,
    /// How long it takes on a card, in seconds.
    pub seconds: u32,
    /// What it does to others.
    pub risk: Risk,
    pub(crate) run: fn(&Bench) -> Result<Seen>,
}

impl Experiment {
    /// What is assumed, by its name.
    #[must_use]
    pub fn assumed(&self) -> &'static str {
        self.values.first().copied().unwrap_or_default()
    }
}
