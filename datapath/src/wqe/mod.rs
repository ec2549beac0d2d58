//! Work queue entries: their words, and how they get into the ring.
//!
//! A WQE is 1 to 8 quanta of four 64-bit words. Everything is written straight into the ring's
//! cells. q3, the header with the valid bit, comes last, and the caller publishes it.

pub(crate) mod fragment;
pub(crate) mod header;
pub(crate) mod inline;
pub(crate) mod memory;
