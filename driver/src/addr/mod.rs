//! Who a peer is: MAC, IP, GID, path.
//!
//! RoCEv2 names a port by its IP address; a GID is that address written as
//! 16 bytes (IPv4 as `::ffff:a.b.c.d`). The hardware wants host-order words
//! (control-path 0).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use e810_cqp::op::MacAddr;

use e810_cqp::op::IpPair;

use crate::error::{Error, Result};

/// A global identifier: a RoCEv2 port's IP address in 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The address inside: IPv4 when the GID is IPv4-mapped.
    #[must_use]
    pub fn ip(self) -> IpAddr {
        Ipv6Addr::from(self.0).to_canonical()
    }
}

impl From<IpAddr> for Gid {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => Self(v4.to_ipv6_mapped().octets()),
            IpAddr::V6(v6) => Self(v6.octets()),
        }
    }
}

/// The link-local address that a MAC gives (modified EUI-64).
#[must_use]
pub fn link_local(mac: MacAddr) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    Ipv6Addr::from([
        0xfe,
        0x80,
        0,
        0,
        0,
        0,
        0,
        0,
        a ^ 2,
        b,
        c,
        0xff,
        0xfe,
        d,
        e,
        f,
    ])
}

/// A path MTU: the payload bytes of a full packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Mtu {
    /// 256 bytes.
    Mtu256,
    /// 512 bytes.
    Mtu512,
    /// 1024 bytes.
    Mtu1024,
    /// 2048 bytes.
    Mtu2048,
    /// 4096 bytes.
    Mtu4096,
}

impl Mtu {
    /// Payload bytes of a full packet.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Mtu256 => 256,
            Self::Mtu512 => 512,
            Self::Mtu1024 => 1024,
            Self::Mtu2048 => 2048,
            Self::Mtu4096 => 4096,
        }
    }

    /// The largest path MTU whose RoCEv2 packets fit an interface of `mtu`
    /// bytes; `None` below 256 plus headers.
    ///
    /// A RoCEv2 packet carries at most 40 (IPv6) + 8 (UDP) + 12 (BTH) + 16
    /// (RETH) + 4 (immediate) + 4 (ICRC) bytes around its payload, which is
    /// what an interface MTU has to hold.
    #[must_use]
    pub const fn fitting(mtu: u16) -> Option<Self> {
        match mtu.saturating_sub(40 + 8 + 12 + 16 + 4 + 4) {
            4096.. => Some(Self::Mtu4096),
            2048.. => Some(Self::Mtu2048),
            1024.. => Some(Self::Mtu1024),
            512.. => Some(Self::Mtu512),
            256.. => Some(Self::Mtu256),
            _ => None,
        }
    }
}

/// Where the packets of a QP go: the address vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Our address.
    pub source: IpAddr,
    /// The peer's address; the same family as ours.
    pub destination: IpAddr,
    /// The peer's (or the next hop's) Ethernet address.
    pub destination_mac: MacAddr,
    /// Time to live or hop limit; 0 is sent as 64.
    pub hop_limit: u8,
    /// Type of service or traffic class.
    pub traffic_class: u8,
    /// IPv6 flow label, 20 bits; also the seed of the UDP source port.
    pub flow_label: u32,
    /// VLAN id (1..=4094) and priority (0..=7), if tagged.
    pub vlan: Option<Vlan>,
}

impl Path {
    /// An untagged path with default hop limit and class.
    #[must_use]
    pub const fn new(source: IpAddr, destination: IpAddr, destination_mac: MacAddr) -> Self {
        Self {
            source,
            destination,
            destination_mac,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
            vlan: None,
        }
    }
}

impl Path {
    /// Both addresses as the context has them.
    pub(crate) fn addresses(&self) -> Result<IpPair> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Ok(IpPair::V4 {
                source,
                destination,
            }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(IpPair::V6 {
                source,
                destination,
            }),
            _ => Err(Error::Invalid {
                what: "source and destination address are not of one family: use two IPv4 or two IPv6 addresses",
            }),
        }
    }

    /// The tag as the context has it: priority << 13 | id.
    pub(crate) fn vlan_tag(&self) -> Result<Option<u16>> {
        let Some(vlan) = self.vlan else {
            return Ok(None);
        };
        for (what, value, min, max) in [
            ("VLAN id", vlan.id, 1, 4094),
            ("VLAN priority", vlan.priority.into(), 0, 7),
        ] {
            if !(min..=max).contains(&value) {
                return Err(Error::OutOfRange {
                    what,
                    value: value.into(),
                    min: min.into(),
                    max: max.into(),
                });
            }
        }
        Ok(Some(u16::from(vlan.priority) << 13 | vlan.id))
    }
}

/// An 802.1Q tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vlan {
    /// VLAN id, 1..=4094.
    pub id: u16,
    /// Priority, 0..=7.
    pub priority: u8,
}

/// The UDP source port of a connection: in 0xC000..=0xFFFF, the same for one
/// pair of QPs, different for different pairs, so that routers spread flows.
///
/// A given flow label decides alone; otherwise the QP numbers do
/// (control-path 5.5, SPORT = hash(flow label, QPNs); the fold is the kernel
/// verbs layer's, its value is not judged by any peer).
#[must_use]
pub(crate) const fn udp_source_port(flow_label: u32, local_qpn: u32, remote_qpn: u32) -> u16 {
    let label = if flow_label == 0 {
        let product = (local_qpn as u64).wrapping_mul(remote_qpn as u64);
        let folded = product ^ (product >> 20) ^ (product >> 40);
        (folded & 0xF_FFFF) as u32
    } else {
        flow_label & 0xF_FFFF
    };
    let low = label & 0x3FFF;
    let high = label >> 14;
    ((low ^ high) as u16 & 0x3FFF) | 0xC000
}

/// An IPv4 address from its GID words; used by tests and logs.
#[must_use]
pub const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn gids_carry_both_families() {
        for ip in [v4(192, 168, 1, 2), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            assert_eq!(Gid::from(ip).ip(), ip);
        }
    }

    #[test]
    fn link_local_is_the_modified_eui64() {
        assert_eq!(
            link_local(MacAddr([0x00, 0x11, 0x22, 0x33, 0x44, 0x55])).to_string(),
            "fe80::211:22ff:fe33:4455"
        );
    }

    #[test]
    fn a_path_mtu_leaves_room_for_headers() {
        assert_eq!(Mtu::fitting(1500), Some(Mtu::Mtu1024));
        assert_eq!(Mtu::fitting(9000), Some(Mtu::Mtu4096));
        assert_eq!(Mtu::fitting(300), None);
        assert_eq!(Mtu::fitting(0), None);
    }

    #[test]
    fn source_ports_stay_in_the_dynamic_range() {
        for (label, a, b) in [
            (0, 0, 0),
            (0, 3, 4),
            (0xF_FFFF, 1, 1),
            (0, u32::MAX, u32::MAX),
        ] {
            assert!(udp_source_port(label, a, b) >= 0xC000);
        }
        assert_ne!(udp_source_port(0, 3, 4), udp_source_port(0, 3, 5));
    }
}
