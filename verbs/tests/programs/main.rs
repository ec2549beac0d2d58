//! The library as a program sees it: its functions called as C does, on simulated functions.
//!
//! * `harness`, what a program has: devices, objects, connections;
//! * `channels`, `contexts`, `datagrams`, `events`, `gids`, `paths`, `requests`, `threads`, tests
//!   by subject;
//! * `processes`, those whose programs are processes of their own.

// UNSAFETY: calls the functions as C does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, also in its helpers"
)]

mod channels;
mod contexts;
mod datagrams;
mod events;
mod gids;
mod harness;
mod paths;
mod processes;
mod requests;
mod threads;
