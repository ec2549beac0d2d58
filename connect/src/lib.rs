//! Connections by the RDMA connection manager (IB CM and Linux' RDMA IP CM), on queue pair 1 of a
//! function.
//!
//! * [`Connection`]: a queue pair and its way from INIT to the end, for programs;
//! * [`Manager`]: the state machine of `e810-cm` on queue pair 1, with neighbours that the caller
//!   finds;
//! * [`Call`], [`Answer`], [`Told`]: what passes between the two, as plain data ([`Service`]);
//! * [`Gsi`]: sends and receives management datagrams.
//!
//! Nothing here waits, allocates or has a clock: [`Manager::progress`] is called when a datagram
//! may have come, and at [`Manager::deadline`].

#![warn(missing_docs)]
#![no_std]
#![forbid(unsafe_code)]

mod attributes;
mod calls;
mod connection;
mod gsi;
mod manager;
mod service;

pub use attributes::Attributes;
pub use connection::{Connection, Grant, NotConnected, Phase};
pub use gsi::{Gsi, GsiError, Received};
pub use manager::{Happened, Lookup, Manager, Neighbours, Question};
pub use service::{Answer, Call, Local, News, PrivateData, Refused, Requested, Service, Told};
