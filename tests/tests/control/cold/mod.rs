//! The cold start against the simulator's firmware: whole, refused, broken and
//! reset everywhere.
//!
//! Virtual time, so that every run is the same and a time-out costs nothing; only
//! two functions that come up at the same time do so in real time.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, helpers included"
)]

mod busy;
mod events;
mod faults;
mod lan_frames;
mod lan_net;
mod lan_port;
mod late;
mod link;
mod memory;
mod multicast;
mod needs;
mod queue_sets;
mod resets;
mod states;
mod used;
mod whole;
mod world;
