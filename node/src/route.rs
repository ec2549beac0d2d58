//! Where packets go and which values they have on their route, as answered by a station or by the
//! host's network stack.

use std::net::{IpAddr, Ipv6Addr};

use e810::MacAddr;

/// Hop limit, or time to live, unless another was set.
pub(crate) const HOP_LIMIT: u8 = 64;

/// A question to a resolver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Where packets are to go.
    pub destination: IpAddr,
    /// The VLAN of our address that they come from. A station has one VLAN for all.
    pub vlan: Option<u16>,
    /// The destination's Ethernet address, if it is known and needs no question.
    pub known: Option<MacAddr>,
}

impl From<IpAddr> for Question {
    fn from(destination: IpAddr) -> Self {
        Self {
            destination,
            vlan: None,
            known: None,
        }
    }
}

/// Where packets to a destination go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Neighbour {
    /// The next hop: the destination, or a gateway.
    pub via: IpAddr,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// The values that packets have on the way.
    pub route: Route,
}

/// The values that packets have on a route, whatever their program wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Route {
    /// Hop limit, or time to live. For packets to a group the program sets it.
    pub hop_limit: u8,
    /// The priority in the tag for packets of each priority: the egress map of a VLAN.
    pub priorities: [u8; 8],
}

impl Route {
    /// For packets without any settings.
    pub const PLAIN: Self = Self {
        hop_limit: HOP_LIMIT,
        priorities: [0, 1, 2, 3, 4, 5, 6, 7],
    };

    /// The priority in the tag for packets of a priority.
    #[must_use]
    pub fn priority(&self, of: u8) -> u8 {
        let mapped = self.priorities.get(usize::from(of));
        mapped.copied().unwrap_or_default()
    }
}

/// The Ethernet address that needs no question: of one of our own addresses, which are at `mac`; of
/// a link-local address that was made from one; of a multicast group, whose address gives it.
#[must_use]
pub fn known_mac(own: &[IpAddr], mac: MacAddr, destination: IpAddr) -> Option<MacAddr> {
    if destination.is_multicast() {
        return Some(MacAddr::ZERO);
    }
    if own.contains(&destination) {
        return Some(mac);
    }
    match destination {
        IpAddr::V6(v6) => mac_in(v6),
        IpAddr::V4(_) => None,
    }
}

/// The Ethernet address in a link-local address that was made from one (RFC 4291, appendix A).
fn mac_in(address: Ipv6Addr) -> Option<MacAddr> {
    if !address.is_unicast_link_local() {
        return None;
    }
    let [.., a, b, c, 0xFF, 0xFE, d, e, f] = address.octets() else {
        return None;
    };
    Some(MacAddr([a ^ 2, b, c, d, e, f]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_made_from_one_have_an_ethernet_address() {
        let known = |ip: &str| known_mac(&[], MacAddr::ZERO, ip.parse().unwrap());
        let made = known("fe80::200:ff:fe00:100");
        assert_eq!(made, Some(MacAddr([0, 0, 0, 0, 1, 0])));
        for other in ["fe80::1", "fd00::200:ff:fe00:100", "192.0.2.1"] {
            assert_eq!(known(other), None, "{other}");
        }
    }
}
