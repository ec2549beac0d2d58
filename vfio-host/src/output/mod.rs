//! What people and scripts get to read: on a terminal, in a pipe, at the end.

pub mod ending;
pub mod progress;
pub mod report;
pub mod standard;
pub mod terminal;
pub mod wrap;
