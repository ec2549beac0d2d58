//! The library as a program sees it: its functions called as C does, on simulated functions.
//!
//! * `harness`, what a program has: devices, objects, connections;
//! * `cancel`, `channels`, `churn`, `contexts`, `datagrams`, `descriptors`, `endings`, `events`,
//!   `gids`, `interface`, `neighbours`, `paths`, `requests`, `signals`, `software_events`,
//!   `threads`, tests by subject;
//! * `depths`, what a device says that it has, and tables that are full;
//! * `processes`, `forks`, `memory`, those whose programs are processes of their own;
//! * `over_socket`, all of them over the other control plane.

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
mod over_socket;
mod paths;
mod processes;
mod requests;
mod signals;
mod software_events;
mod threads;
