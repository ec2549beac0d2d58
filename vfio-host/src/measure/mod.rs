//! Measurements of messages between two functions: one module per measurement ([`pingpong`],
//! [`perf`], [`access`]), and what they share.

pub mod access;
pub mod asked;
pub(crate) mod attached;
pub mod ended;
pub mod endpoint;
pub mod latency;
pub(crate) mod meeting;
pub mod op;
pub mod payload;
pub mod perf;
pub mod pingpong;
pub mod progress_loop;
pub mod queues;
pub mod wait_mode;
