//! The functions that a command uses: opened, started, watched, shut down.

pub mod memory_need;
pub(crate) mod pair;
pub(crate) mod peer;
pub mod start;
pub(crate) mod watch;
