//! Golden vectors: what the device must see, byte for byte.
//!
//! One test a file of `vectors/` (see `vectors/README.md`) for the driver, and one
//! for the simulated device where the file says something of it; each prints its
//! tally, `zz_summary` prints the totals. `E810_VECTORS=<directory>` judges
//! another set of files of the same names and formats.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a vector that is not as described fails its test by a panic"
)]
#![expect(
    unreachable_pub,
    reason = "what one module offers the others is public, though nobody can be outside a test"
)]

mod arm;
mod cm_mads;
mod context;
mod cq;
mod cq_resize;
mod cqp;
mod deviations;
mod device;
mod events;
mod feature;
mod hex;
mod kernel_cq;
mod kernel_sq;
mod lan_queues;
mod report;
mod rq;
mod sizing;
mod sq;
mod summary;
mod verbs;

/// Named to start last: it waits for the others.
#[test]
fn zz_summary() {
    summary::check();
}
