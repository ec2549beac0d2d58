//! The wire to another simulator, one Ethernet frame per UDP datagram: how it is named
//! ([`LinkSpec`], [`UdpEnds`]) and which datagrams are frames ([`frame`]).
//!
//! The socket itself is not in this crate, because it needs more of the operating system than `std`
//! provides. The owner of the socket passes received frames to
//! [`Sim::receive_frames`](crate::Sim::receive_frames) and sends the frames that
//! [`Sim::set_uplink`](crate::Sim::set_uplink) delivers. `e810-sim-server` does so.

mod endpoints;
pub mod frame;
mod link_spec;

pub use endpoints::{SamePort, UdpEnds};
pub use link_spec::{LinkError, LinkSpec};
