//! How a loop learns of completions.

use e810::CqModeration;

/// How a loop learns of completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Waits {
    /// It looks for them all the time.
    #[default]
    Polls,
    /// It asks for an event when there are none, and looks again after an
    /// interrupt, which may be moderated.
    ForEvents(CqModeration),
}
