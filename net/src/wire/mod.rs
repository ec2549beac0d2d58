//! Formats of frames: parsers that take any bytes, and builders.
//!
//! A parser gives a [`DropReason`](crate::DropReason) for what it refuses, a builder writes to a
//! [`Writer`], which remembers that something did not fit.

pub mod arp;
mod bytes;
mod checksum;
mod ethernet;
pub mod icmpv4;
pub mod icmpv6;
pub mod igmp;
mod ipv4;
mod ipv6;
pub mod mld;
pub mod nd;

pub use bytes::Writer;
pub use checksum::Checksum;
pub use ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet, Vlan};
pub use ipv4::{IGMP, IPV4_HEADER, Ipv4};
pub use ipv6::{ICMPV6, IPV6_HEADER, Ipv6};

/// Protocol number of ICMPv4 (RFC 792).
pub const ICMPV4: u8 = 1;

#[cfg(test)]
mod tests;
