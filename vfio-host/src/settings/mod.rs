//! Settings of a run that options name and reports repeat.

mod moderation;
mod tuning;

pub use moderation::ModerationArg;
pub use tuning::TuningArg;
