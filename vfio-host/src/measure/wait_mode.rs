//! How a progress loop waits for completions.

use e810::CqModeration;

/// How a progress loop waits for completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WaitMode {
    /// It polls the completion queue all the time.
    #[default]
    BusyPoll,
    /// It arms the empty completion queue and polls again after an interrupt, which may be
    /// moderated.
    Interrupt(CqModeration),
}
