//! Devices that are up, connected, and pass messages that are checked byte by byte.
//!
//! A [`Pair`] is two devices (or one, looped back) with connected queue pairs.
//! [`Pair::transfer`] passes one message and checks completions and payload;
//! what a test does by hand goes through [`Side`], and [`Pair::pump`] polls
//! every completion and event queue. All is generic over the platform;
//! [`Watched`] is one that remembers the memory it gave to the device.
//!
//! Like assertions, these helpers panic when something is not as it should be.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests: what is not as it should be ends the test"
)]

mod buffer;
#[cfg(feature = "backends")]
mod function;
mod pair;
pub mod scenarios;
mod setup;
mod side;
mod storm;
mod transfer;
pub mod verbs;
mod watched;
pub mod wires;

pub use buffer::{Buffer, Room, pattern};
pub use pair::{End, Pair, Report};
pub use setup::Setup;
pub use side::{Done, Side};
pub use storm::storm_setup;
pub use transfer::{Kind, Transfer};
pub use watched::{Block, Watched};
