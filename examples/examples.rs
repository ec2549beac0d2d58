//! Small programs of the e810 library, one idea each, on two simulated functions:
//!
//! ```text
//! cargo run --release --example send_recv     a message over a reliable connection
//! cargo run --release --example rdma_write    memory of the peer written and read
//! cargo run --release --example datagrams     a datagram and its answer
//! cargo run --release --example events        waiting for an interrupt
//! cargo run --release --example failure       a request that fails, and what follows
//! cargo run --release --example backends -- SPEC SPEC    the first one on real or served functions
//! ```
//!
//! The programs are the files beside it. This library has what several of them use.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod nvme;
