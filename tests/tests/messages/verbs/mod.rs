//! Objects, attributes and limits of verbs, in virtual time.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like the tests"
)]

mod connections;
mod contexts;
mod counters;
mod fences;
mod gsi;
mod keys;
mod neighbours;
mod pages;
mod parts;
mod paths;
mod queries;
mod scale;
mod sizes;
mod states;
mod tuning;
mod unsupported;

use e810_sim::Sim;
use e810_tests::traffic::End;

const A: End = End { side: 0, qp: 0 };
const B: End = End { side: 1, qp: 0 };

fn sim(seed: u64) -> Sim {
    Sim::builder().functions(2).seed(seed).build()
}
