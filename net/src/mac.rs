//! Ethernet addresses, and those that follow from IP addresses.

use core::net::{IpAddr, Ipv6Addr};

pub use e810_types::MacAddr;

/// The 64 low bits of an address that the MAC gives (modified EUI-64, RFC 4291 appendix A).
pub(crate) const fn interface_id(mac: MacAddr) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac.0;
    [a ^ 2, b, c, 0xFF, 0xFE, d, e, f]
}

/// The link-local address that a MAC gives (RFC 4291 2.5.6).
#[must_use]
pub const fn link_local(mac: MacAddr) -> Ipv6Addr {
    with_interface_id([0xFE, 0x80, 0, 0, 0, 0, 0, 0], mac)
}

/// The address with this upper half that a MAC gives (RFC 4862 5.5.3 d).
pub(crate) const fn with_interface_id(upper: [u8; 8], mac: MacAddr) -> Ipv6Addr {
    let prefix = u64::from_be_bytes(upper) as u128;
    let id = u64::from_be_bytes(interface_id(mac)) as u128;
    Ipv6Addr::from_bits(prefix << 64 | id)
}

/// The multicast group in which the owners of an address are asked for it (RFC 4291 2.7.1).
#[must_use]
pub const fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    const GROUP: u128 = 0xFF02_0000_0000_0000_0000_0001_FF00_0000;
    Ipv6Addr::from_bits(GROUP | ip.to_bits() & 0xFF_FFFF)
}

/// The MAC address of a multicast group (RFC 1112 6.4, RFC 2464 7), or of IPv4's limited
/// broadcast; `None` for a unicast address.
#[must_use]
pub const fn multicast_mac(ip: IpAddr) -> Option<MacAddr> {
    match ip {
        IpAddr::V4(v4) if v4.is_broadcast() => Some(MacAddr::BROADCAST),
        IpAddr::V4(v4) if v4.is_multicast() => {
            let [_, b, c, d] = v4.octets();
            Some(MacAddr([0x01, 0x00, 0x5E, b & 0x7F, c, d]))
        }
        IpAddr::V6(v6) if v6.is_multicast() => {
            let [a, b, c, d] = (v6.to_bits() as u32).to_be_bytes();
            Some(MacAddr([0x33, 0x33, a, b, c, d]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn addresses_follow_from_others() {
        let mac = MacAddr([0x02, 0xE8, 0x10, 0xAB, 0xCD, 0xEF]);
        assert_eq!(mac.to_string(), "02:e8:10:ab:cd:ef");
        let own = link_local(mac);
        assert_eq!(own.to_string(), "fe80::e8:10ff:feab:cdef");
        let group = solicited_node(own);
        assert_eq!(group.to_string(), "ff02::1:ffab:cdef");
        let mac = |ip: &str| multicast_mac(ip.parse().unwrap()).map(|mac| mac.to_string());
        assert_eq!(mac("ff02::1:ffab:cdef").unwrap(), "33:33:ff:ab:cd:ef");
        assert_eq!(mac("239.129.2.3").unwrap(), "01:00:5e:01:02:03");
        assert_eq!(mac("255.255.255.255").unwrap(), "ff:ff:ff:ff:ff:ff");
        assert_eq!(mac("10.0.0.1"), None);
        assert_eq!(mac("fe80::1"), None);
    }
}
