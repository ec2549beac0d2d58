//! Sequences of calls of libibverbs' and librdmacm's functions, by someone who knows what is live.
//!
//! A [`Engine`](engine::Engine) draws calls from a seed (or a fuzzer's bytes), gives them right and
//! wrong arguments, and holds each answer against what may be answered then. What cannot be known,
//! such as whether a peer's mistake has come already, is a set of answers. EIO is in none: it says
//! that the device or its control path is broken. All objects are destroyed at the end of a
//! sequence; then the simulators have found nothing, and the driver holds the memory that it held.
//!
//! * [`api`], the functions, and [`draw`], where choices come from;
//! * [`run`], calls and their answers: counts, the last ones, and how long each takes;
//! * [`engine`], the sequence, and [`world`], what is live in it;
//! * `calls`, what is drawn, a module a subject; `transfer`, messages whose bytes are compared;
//! * [`campaign`], sequences one after the other, or in several threads on shared objects;
//! * [`cm`], all of this for librdmacm's functions, in sequences of their own.

// UNSAFETY: calls the C interface, with pointers that this crate keeps.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "an answer that is wrong ends the process, with the calls that led to it"
)]

pub mod api;
mod calls;
pub mod campaign;
pub mod cm;
pub mod draw;
pub mod engine;
pub mod run;
mod transfer;
pub mod world;
