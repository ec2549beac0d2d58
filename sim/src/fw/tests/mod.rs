//! The firmware as a driver meets it, driven by hand.

mod client;
mod faults;
mod filter;
mod lan_tx;
mod package;
mod queues;
mod rdma;
mod resets;
mod scheduler;
mod setup;
mod switch;
