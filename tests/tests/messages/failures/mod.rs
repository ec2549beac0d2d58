//! What is refused, what fails, and what is left afterwards, in virtual time.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like the tests"
)]

mod endings;
mod former_lives;
mod groups;
mod late;
mod many;
mod objects;
mod ownership;
mod posts;
mod random;
mod refused_late;
mod reported;
mod requests;
mod stopping;
mod transitions;
mod unstopped;
