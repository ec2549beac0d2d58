//! Verified traffic between devices, in virtual time; between simulators in real time.
//!
//! Every run ends with all memory given back and nothing found by the simulator.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like the tests"
)]

mod engines;
mod events;
mod exchange;
mod faults;
mod memory;
mod messages;
mod queues;
mod segment;
mod wire;
