//! How a loop learns of completions.

use e810::CqModeration;

/// How a loop learns of completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WaitMode {
    /// It looks for them all the time.
    #[default]
    BusyPoll,
    /// It asks for an event when there are none, and looks again after an
    /// interrupt, which may be moderated.
    Interrupt(CqModeration),
}
