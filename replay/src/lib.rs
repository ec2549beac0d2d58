//! Recordings of drivers, held against the simulator.
//!
//! A recording of `e810 proxy` has what a driver did to a device, and what the device answered. A replay
//! does the same to a simulated function, in virtual time: it writes to memory what the driver wrote
//! there, accesses the same registers, and compares what it reads and what the simulated device writes to
//! memory and sends as interrupts, one after the other, register by register and byte by byte.
//!
//! The simulator is never told what it should answer. It runs only as far as the recording says that the
//! device had got: so what was in memory before an access of the driver is there before that access in the
//! replay, and what was not is not.
//!
//! * [`check`]: the replay; [`Outcome`]: what it found.
//! * `function`: one simulated function with its driver's memory.
//! * `lines`: the order of lines.

#![expect(
    clippy::indexing_slicing,
    reason = "lines and functions are numbered by `lines`; no number in a file is an index"
)]

mod ahead;
mod compare;
mod function;
mod left_out;
mod lines;
mod outcome;
mod replay;
mod state;
mod volatile;

use e810_trace::Trace;

pub use outcome::{Compared, Difference, Outcome};
pub use replay::{NotReplayed, check};
pub use volatile::Volatile;

/// A recording, and what to call it.
#[derive(Debug)]
pub struct Recording {
    /// What differences are named after.
    pub name: String,
    /// Its lines.
    pub trace: Trace,
}
