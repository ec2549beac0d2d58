//! The bring-up against the simulator: whole, stopped anywhere, and broken everywhere.
//!
//! Virtual time throughout, so that every run is the same and a time-out costs nothing.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, helpers included"
)]

mod arrival;
mod failed_commands;
mod gone;
mod memory;
mod old_error;
mod platform;
mod shutdown;
mod silence;
mod spare;
mod trace;
mod vectors;
mod whole;
mod world;
