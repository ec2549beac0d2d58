//! Rings between the ends of a segment: their making, their writing and their reading sides.
//!
//! For each ordered pair of ends there is at most one ring, made by the end that writes, in a file
//! that keeps its size. It is passed on over a unix socket ([handshake]).

mod handshake;
mod incoming;
mod making;
mod outgoing;

use e810_shared::memory::PAGE;
use e810_shared::ring;

use crate::frame::LONGEST;

pub(crate) use incoming::Incoming;
pub(crate) use making::{Rings, listen, locked};
pub(crate) use outgoing::Outgoing;

/// Rings of an end at most, each way. Other ends are reached with datagrams.
pub(crate) const MOST_RINGS: usize = 32;
/// Bytes of frames that a ring holds. A connection has 256 packets outstanding, with 4 KiB in each
/// at most.
const BYTES: usize = 2 << 20;
/// Bytes of a ring's file: a page for the words that are no frames.
const FILE: usize = PAGE + BYTES;

/// What became of a frame for a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Written,
    /// It is lost.
    Full,
}

// What is longer than a frame is no frame.
const _: () = assert!(LONGEST <= ring::LONGEST);
