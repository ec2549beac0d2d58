//! The library as a driver of the simulator: its requests are carried out, its
//! `poll_cq` reads what the simulator writes, and the simulator finds nothing to
//! complain about.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod deliveries;
mod end;
mod flush;
mod runs;
