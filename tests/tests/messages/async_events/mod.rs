//! Every asynchronous event that RoCE can raise on this generation, raised
//! through the driver in virtual time, and the table that says so.
//!
//! A row of [`table`] is a code, and the function here that raises it; the test
//! of that name runs it, so that the table cannot say what is not so.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, like the tests"
)]

mod causes;
mod datagrams;
mod document;
mod fast;
mod groups;
mod injected;
mod keys;
mod never;
mod queues;
mod requests;
mod stage;
mod table;
mod transport;
mod windows;

use e810_tests::traffic::End;

/// Queue pair 0 of the first side.
const A: End = End { side: 0, qp: 0 };
/// Queue pair 0 of the second side.
const B: End = End { side: 1, qp: 0 };
