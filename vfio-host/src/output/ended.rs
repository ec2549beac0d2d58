//! How a run ended that measures something, as its report says it.

use std::fmt;

use anyhow::Result;
use serde::Serialize;

use crate::stop::{Interrupted, Stop};

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// All that was asked for was done.
    Complete,
    /// A signal ended it; the report has what was done until then.
    Interrupted,
    /// It failed; the report has what was done until then.
    Failed,
}

impl Ended {
    /// How a run with this `result` ended.
    #[must_use]
    pub fn of<T>(result: &Result<T>, stop: &Stop) -> Self {
        match result {
            Err(error) if error.is::<Interrupted>() => Self::Interrupted,
            Err(_) => Self::Failed,
            Ok(_) if stop.is_asked() => Self::Interrupted,
            Ok(_) => Self::Complete,
        }
    }

    /// Whether less than what was asked for was done.
    #[must_use]
    pub fn is_partial(self) -> bool {
        self != Self::Complete
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
            Self::Failed => "by a failure",
        })
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn a_signal_is_no_failure() {
        let stop = Stop::default();
        let of = |result: Result<()>| Ended::of(&result, &stop);
        assert_eq!(of(Ok(())), Ended::Complete);
        assert_eq!(of(Err(anyhow!("no"))), Ended::Failed);
        let interrupted = Err(Interrupted(libc::SIGINT)).context("function 0");
        assert_eq!(of(interrupted), Ended::Interrupted);
    }
}
