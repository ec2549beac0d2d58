//! Wires between simulated functions of several processes: Ethernet frames in UDP datagrams, or in
//! rings in shared memory.
//!
//! [`Wire::join`] joins the link of a simulator to a wire, until the [`Wire`] is dropped. There are
//! two kinds ([`WireSpec`]):
//!
//! * a pair, between two processes that name each other's address ([`UdpEnds`]);
//! * a segment, between all processes of a host that use one name ([`WireName`]). Frames to groups
//!   and to unknown addresses go to an IPv4 multicast group on the loopback interface, other frames
//!   to the one end that has sent from their destination address: in a ring in memory that both
//!   ends have, if they are of one user, else as a datagram.
//!
//! A datagram is an Ethernet frame as the engine made it, without FCS and with nothing around it,
//! as QEMU's network backends `dgram` and `socket,mcast=` have it. A wire has no flow control: what
//! a socket does not take is lost and counted ([`LinkReport`]), and the engines' retries repair it.
//!
//! The simulator itself uses nothing of the operating system but `std`; the sockets are here. A
//! wire passes received frames to [`Sim::receive_frames`](e810_sim::Sim::receive_frames) and sends
//! the frames that [`Sim::set_uplink`](e810_sim::Sim::set_uplink) delivers.

// What `std` does not do with sockets is in one file.
#![deny(unsafe_code)]

mod announcement;
mod counts;
mod endpoints;
mod ends;
mod error;
pub mod frame;
mod hearing;
mod mac;
mod name;
mod pace;
mod receiver;
mod report;
mod rings;
mod sender;
mod socket;
mod socket_buffers;
mod spec;
mod uplink;
mod wire;

pub use endpoints::{NoEnds, SamePort, UdpEnds};
pub use error::WireError;
pub use name::{NoWireName, WireName};
pub use report::LinkReport;
pub use spec::WireSpec;
pub use wire::Wire;
