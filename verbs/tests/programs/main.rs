//! The library as a program sees it: its functions called as C does, on simulated functions.
//!
//! * `harness`, what a program has: devices, objects, connections;
//! * `cancel`, `channels`, `churn`, `contexts`, `datagrams`, `descriptors`, `endings`, `events`,
//!   `gids`, `interface`, `neighbours`, `paths`, `requests`, `software_events`, `threads`, tests by
//!   subject;
//! * `depths`, what a device says that it has;
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
mod churn;
mod contexts;
mod datagrams;
mod depths;
mod descriptors;
mod endings;
mod events;
mod forks;
mod gids;
mod harness;
mod interface;
mod memory;
mod neighbours;
mod over_channel;
mod paths;
mod processes;
mod requests;
mod software_events;
mod tables;
mod threads;
