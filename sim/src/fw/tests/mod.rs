//! Tests of the firmware model through its AdminQ, without a driver.

mod client;
mod faults;
mod filter;
mod format;
mod hash;
mod lan_port;
mod lan_queues;
mod lan_tx;
mod package;
mod queues;
mod rdma;
mod resets;
mod scheduler;
mod setup;
mod switch;
