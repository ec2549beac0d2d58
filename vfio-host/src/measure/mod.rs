//! Messages between two functions, and how fast they are: a module a measurement
//! ([`pingpong`], [`perf`], [`access`]), and what they have in common.

pub mod access;
pub mod asked;
pub mod ended;
pub mod endpoint;
pub mod latency;
pub mod op;
pub mod payload;
pub mod perf;
pub mod pingpong;
pub mod progress_loop;
pub mod wait_mode;
