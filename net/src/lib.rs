//! Answers and resolves addresses on a port that no other network stack serves.
//!
//! The RDMA engine of the card answers no ARP request, no neighbour solicitation and no ping, and
//! asks for no address itself. An [`Interface`] does that on any [`Port`] that takes and gives
//! Ethernet frames: it owns IPv4 and IPv6 addresses (with duplicate address detection, and
//! autoconfiguration from router advertisements), keeps a neighbour cache, answers echo
//! requests, reports its multicast groups and notes path MTUs. It knows no driver: bytes in,
//! bytes out, and time is a number.
//!
//! ```
//! use core::net::{IpAddr, Ipv4Addr};
//! use e810_net::{Claim, Config, Full, Interface, MacAddr, Ns, Place, Port, Resolution};
//!
//! /// Keeps the last frame that was sent.
//! struct Last(Vec<u8>);
//! impl Port for Last {
//!     fn receive(&mut self, _into: &mut [u8]) -> Option<usize> {
//!         None
//!     }
//!     fn transmit(&mut self, frame: &[u8]) -> Result<(), Full> {
//!         self.0 = frame.to_vec();
//!         Ok(())
//!     }
//! }
//!
//! let mac = MacAddr([2, 0xE8, 0x10, 0, 0, 1]);
//! let mut interface = Interface::<[Place; 32]>::new(Config::new(mac), Ns::ZERO);
//! interface.add_ipv4(Ipv4Addr::new(10, 0, 0, 1), 24, Claim::Unannounced, Ns::ZERO)?;
//! let peer = IpAddr::from([10, 0, 0, 2]);
//! assert_eq!(interface.lookup(peer, Ns::ZERO), Resolution::Pending);
//! let mut port = Last(Vec::new());
//! interface.poll(Ns::ZERO, &mut port);
//! assert_eq!(&port.0[12..14], [0x08, 0x06], "an ARP request");
//! # Ok::<(), e810_net::AddressError>(())
//! ```
//!
//! What comes in is not trusted: any bytes give a reply, an event, or a count of a
//! [`DropReason`]; one frame gives at most one reply, and no table grows: the caller chooses the
//! room for neighbours, and the other tables have fixed sizes.

#![warn(missing_docs)]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod address;
mod bucket;
mod config;
mod counters;
mod event;
mod group;
mod iface;
mod mac;
mod neighbour;
mod path_mtu;
#[cfg(any(test, feature = "smoltcp"))]
pub mod phy;
mod ping;
mod port;
mod prefix;
mod random;
mod route;
mod router;
mod take;
#[cfg(test)]
mod tests;
mod time;
pub mod wire;

pub use address::{ADDRESSES, Address, AddressError, AddressState, Claim, Origin};
pub use config::Config;
pub use counters::{Counters, DropReason};
pub use event::{EVENTS, Event, PingFailure};
pub use group::{GROUPS, GroupError};
pub use iface::{FRAMES_PER_POLL, Interface};
pub use mac::{MacAddr, link_local, multicast_mac, solicited_node};
pub use neighbour::{Neighbour, NeighbourState, Place, Places, Resolution};
pub use path_mtu::PATHS;
pub use ping::{PINGS, Ping, PingError};
pub use port::{Full, Port};
pub use prefix::Prefix;
pub use route::{NextHop, ROUTES, RouteError};
pub use router::{PREFIXES, ROUTERS};
pub use time::Ns;
