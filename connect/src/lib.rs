//! Connections by the RDMA connection manager (IB CM and Linux' RDMA IP CM), on queue pair 1 of a
//! function.
//!
//! * [`Gsi`]: sends and receives management datagrams;
//! * [`Manager`]: the state machine of `e810-cm` on it, with neighbours that the caller finds.
//!
//! Nothing here waits, allocates or has a clock: [`Manager::progress`] is called when a datagram
//! may have come, and at [`Manager::deadline`].

#![warn(missing_docs)]
#![no_std]
#![forbid(unsafe_code)]

mod gsi;
mod manager;

pub use gsi::{Gsi, GsiError, Received};
pub use manager::{Attributes, Happened, Lookup, Manager, Neighbours, NotConnected};
