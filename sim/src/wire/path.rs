//! Addressing of one direction: Ethernet, IP and UDP.

use std::net::{Ipv4Addr, Ipv6Addr};

/// UDP destination port of RoCEv2; what DESTPORTNUM of the QP context holds (control-path 5.2).
pub const ROCE_UDP_PORT: u16 = 4791;

/// A MAC address, first octet on the wire first.
pub type MacAddr = [u8; 6];

/// Source and destination address of the IP header; the variant chooses the IP version.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// RoCEv2 over IPv4.
    V4 {
        /// Sender.
        src: Ipv4Addr,
        /// Receiver.
        dst: Ipv4Addr,
    },
    /// RoCEv2 over IPv6.
    V6 {
        /// Sender.
        src: Ipv6Addr,
        /// Receiver.
        dst: Ipv6Addr,
    },
}

impl Addresses {
    /// The same pair seen from the other end.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Self::V4 { src, dst } => Self::V4 { src: dst, dst: src },
            Self::V6 { src, dst } => Self::V6 { src: dst, dst: src },
        }
    }
}

/// Fields below the transport headers that a sender chooses.
///
/// In a parsed packet the fields are those of the received headers, so `src` is the peer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Source MAC address (MACADDRESS of the QP context).
    pub src_mac: MacAddr,
    /// Destination MAC address (of the ARP table entry that ARPIDX names).
    pub dst_mac: MacAddr,
    /// 802.1Q tag control word, priority in `[15:13]` and VLAN id in `[11:0]`; `None` sends
    /// untagged.
    pub vlan: Option<u16>,
    pub ip: Addresses,
    /// TOS of IPv4, traffic class of IPv6; the low two bits are ECN.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// IPv6 flow label, 20 bits; not carried by IPv4 (a parsed IPv4 packet has 0).
    pub flow_label: u32,
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port.
    pub dst_port: u16,
}

impl Default for Path {
    /// Untagged IPv4 from 0.0.0.0 to 0.0.0.0 with the RoCE defaults of control-path 5.2 (ports
    /// 0xC000 and 4791).
    fn default() -> Self {
        Self {
            src_mac: [0; 6],
            dst_mac: [0; 6],
            vlan: None,
            ip: Addresses::V4 {
                src: Ipv4Addr::UNSPECIFIED,
                dst: Ipv4Addr::UNSPECIFIED,
            },
            tos: 0,
            ttl: 64,
            flow_label: 0,
            src_port: 0xC000,
            dst_port: ROCE_UDP_PORT,
        }
    }
}
