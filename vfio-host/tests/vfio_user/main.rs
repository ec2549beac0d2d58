//! Served functions and their users, as processes and as threads of one.
//!
//! Here and not among the scenarios, because only the tests of a package know
//! where its binary is.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod apart;
mod attached;
mod cables;
mod check;
mod cut_short;
mod ending;
mod faults;
mod first_day;
mod foreign_server;
mod limits;
mod meeting;
mod messages;
mod middleman;
mod neighbours;
mod outputs;
mod overlap;
mod pcap;
mod processes;
mod proxy;
mod rc_pingpong;
mod report;
mod segment;
mod served;
mod server_stays;
mod strangers;
mod trace;
mod watchdog;
mod wire;
