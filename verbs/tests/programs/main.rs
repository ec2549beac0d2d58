//! The library as a program sees it: its functions called as C does, on simulated functions.
//!
//! * `harness`, what a program has: devices, objects, connections;
//! * `channels`, `churn`, `contexts`, `datagrams`, `endings`, `events`, `gids`, `requests`,
//!   `software_events`, `threads`, tests by subject;
//! * `depths`, what a device says that it has;
//! * `processes`, those whose programs are processes of their own.

// UNSAFETY: calls the functions as C does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, also in its helpers"
)]

mod channels;
mod churn;
mod contexts;
mod datagrams;
mod depths;
mod endings;
mod events;
mod gids;
mod harness;
mod neighbours;
mod processes;
mod requests;
mod software_events;
mod threads;
