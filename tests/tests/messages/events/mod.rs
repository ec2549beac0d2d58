//! Events and interrupts, from a completion to the program that waits for it.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like the tests"
)]

mod added;
mod costs;
mod destruction;
mod intervals;
mod moderation;
mod own;
mod polling;
mod stale;
mod wakeups;
mod watch;
mod worker;
