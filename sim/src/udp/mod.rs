//! The wire to another simulator, one Ethernet frame a UDP datagram: how it is named ([`LinkSpec`], [`UdpEnds`]) and
//! which datagrams are frames ([`frame`]).
//!
//! The socket itself is not here, because it needs more of the system than `std` has: whoever owns one gives
//! what arrives to [`Sim::receive_frames`](crate::Sim::receive_frames), and takes what leaves with
//! [`Sim::set_uplink`](crate::Sim::set_uplink). `e810-sim-server` does.

mod endpoints;
pub mod frame;
mod link_spec;

pub use endpoints::{SamePort, UdpEnds};
pub use link_spec::{LinkError, LinkSpec};
