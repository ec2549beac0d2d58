//! The connection manager of RDMA, as bytes and times: two ends exchange the numbers of their queue
//! pairs in datagrams between the QPs 1 of their ports (IB CM, with the IP header of Linux' RDMA CM).
//!
//! * [`Machine`]: the state machine of a function;
//! * [`Message`]: the datagrams, field by field;
//! * [`Reason`]: why a connection is refused;
//! * [`ip`]: addresses, ports and service ids.
//!
//! There is no allocation, no clock and no I/O. Facts are from `docs/reference/cm-path.md`.

#![warn(missing_docs)]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod bits;
pub mod ip;
pub mod machine;
mod message;
mod reason;

pub use ip::GID;
pub use machine::Machine;
pub use message::{
    Apr, Drep, Dreq, Header, Lap, Message, Mra, NoMessage, Rej, Rep, Req, Rtu, SidrRep, SidrReq,
};
pub use reason::Reason;

/// A management datagram.
pub type Mad = [u8; 256];

#[cfg(test)]
mod tests;
