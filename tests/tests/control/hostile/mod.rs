//! What arrives as nobody would send it: registers, commands and frames of a
//! hostile driver at the simulator; memory that changes under driver and simulator.
//! Neither may panic or go on for ever, whatever they make of it.
//!
//! A few seeds each. `E810_HOSTILE_SEEDS=1000..2000` takes these instead; a test
//! names the seed that it fails with.

#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod driver;
mod memory;
mod random;
