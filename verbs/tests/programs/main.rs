//! The library as a program sees it: its functions called as C does, on simulated functions.
//!
//! * `harness`, what a program has: devices, objects, connections;
//! * `cancel`, `channels`, `contexts`, `datagrams`, `descriptors`, `events`, `gids`, `requests`,
//!   `threads`, tests by subject;
//! * `processes`, `forks`, `memory`, `tables`, those whose programs are processes of their own;
//! * `over_channel`, all of them over the other control plane.

// UNSAFETY: calls the functions as C does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, also in its helpers"
)]

mod cancel;
mod channels;
mod contexts;
mod datagrams;
mod descriptors;
mod events;
mod forks;
mod gids;
mod harness;
mod memory;
mod over_channel;
mod processes;
mod requests;
mod tables;
mod threads;
