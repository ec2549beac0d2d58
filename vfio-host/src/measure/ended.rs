//! How a measurement ended, for its report.

use std::fmt;

use anyhow::Result;
use serde::Serialize;

use crate::handshake::HandshakeError;
use crate::stop::{Interrupted, Stop};

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// All that was asked for was done.
    Complete,
    /// A signal ended it, here or at its peer; the report has what was done until then.
    Interrupted,
    /// It failed; the report has what was done until then.
    Failed,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        })
    }
}

/// How a run ended, and why, if it was not complete.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Ending {
    /// How.
    pub ended: Ended,
    /// What ended a run that is not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Ending {
    /// The ending of a complete run.
    pub const COMPLETE: Self = Self {
        ended: Ended::Complete,
        why: None,
    };

    /// The ending of a run with this `result`.
    #[must_use]
    pub fn of<T>(result: &Result<T>, stop: &Stop) -> Self {
        let interrupted = match result {
            Ok(_) => stop.check().err().map(|own| own.to_string()),
            // The reason is the signal, not the step that it interrupted.
            Err(error) => match (error.downcast_ref::<Interrupted>(), error.downcast_ref()) {
                (Some(own), _) => Some(own.to_string()),
                (_, Some(peer @ HandshakeError::Interrupted { .. })) => Some(peer.to_string()),
                _ => None,
            },
        };
        match (interrupted, result) {
            (None, Ok(_)) => Self::COMPLETE,
            (None, Err(error)) => Self {
                ended: Ended::Failed,
                why: Some(format!("{error:#}")),
            },
            (why, _) => Self {
                ended: Ended::Interrupted,
                why,
            },
        }
    }

    /// Whether less than what was asked for was done.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.ended != Ended::Complete
    }

    /// What ended the run, in words.
    #[must_use]
    pub fn by(&self) -> String {
        let why = self.why.as_ref();
        why.map_or_else(String::new, |why| format!(" ({why})"))
    }
}

/// The final result of a run with a `result`: a run that was asked to end is interrupted, and an
/// error on its way out is logged.
///
/// # Errors
/// [`Interrupted`], or the error of `result`.
pub fn judged<T>(stop: &Stop, result: Result<T>) -> Result<T> {
    let Err(own) = stop.check() else {
        return result;
    };
    result.map_err(|error| {
        let is_asked_too = error.is::<Interrupted>()
            || matches!(
                error.downcast_ref(),
                Some(
                    HandshakeError::Asked(_)
                        | HandshakeError::Interrupted { .. }
                        | HandshakeError::Gone { .. }
                )
            );
        if !is_asked_too {
            log::warn!("{own}, and then: {error:#}");
        }
        own.into()
    })
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn a_signal_is_no_failure() {
        let stop = Stop::default();
        let of = |result: Result<()>| Ending::of(&result, &stop);
        assert_eq!(of(Ok(())), Ending::COMPLETE);
        let by = Interrupted(libc::SIGINT);
        let peer = ([127, 0, 0, 1], 1).into();
        let at_peer = HandshakeError::Interrupted { peer, by };
        for (error, ended, why) in [
            (anyhow!("no"), Ended::Failed, "it: no"),
            (by.into(), Ended::Interrupted, "interrupted by signal 2"),
            (
                at_peer.into(),
                Ended::Interrupted,
                "the peer 127.0.0.1:1 was interrupted by signal 2 before it was done; start both again",
            ),
        ] {
            let ending = of(Err(error).context("it"));
            assert_eq!((ending.ended, ending.why.as_deref()), (ended, Some(why)));
        }
    }
}
