//! Output for people and scripts: on a terminal, in a pipe, at the end.

pub mod counters;
pub mod ending;
pub mod file;
pub mod json;
pub(crate) mod lasting;
pub mod progress;
pub mod standard;
pub mod terminal;
pub mod units;
pub(crate) mod unwritten;
pub mod wire;
pub mod wrap;
