//! Addresses of a peer: MAC, IP, GID, path.
//!
//! RoCEv2 names a port by its IP address; a GID is that address written as
//! 16 bytes (IPv4 as `::ffff:a.b.c.d`). The hardware wants host-order words
//! (control-path 0).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use e810_types::MacAddr;

mod gid;
mod mtu;
mod path;

pub use gid::GidEntry;
pub(crate) use gid::GidTable;
pub use mtu::Mtu;
pub use path::{Path, Vlan};
pub(crate) use path::{Target, group_mac};

/// A global identifier: a RoCEv2 port's IP address in 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[doc(alias = "ibv_gid")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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

/// The link-local address that follows from a MAC (modified EUI-64).
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

/// The UDP source port of a connection: in 0xC000..=0xFFFF, the same for one pair of QPs,
/// different for different pairs, so that routers spread flows.
///
/// If a flow label is given, it alone decides; otherwise the QP numbers do (control-path 5.5, row
/// RTR: SPORT = hash(flow label, QPNs)). The fold is that of the kernel's verbs layer; no peer
/// checks its value.
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

/// The IPv4 address `a.b.c.d`.
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
