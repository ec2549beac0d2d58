//! The network side of a function: its addresses, its gateways, and the interface they make.

use std::net::IpAddr;

use e810::MacAddr;
use e810_net::wire::Vlan;
use e810_net::{AddressError, Claim, Config, Interface, Ns, Place, Prefix};

use crate::address::OwnAddress;

/// Neighbours that are known at a time, unless another number is given: as many as the card's ARP
/// table has by default.
const NEIGHBOURS: usize = e810::hmc::Capacity::DEFAULT.arps as usize;
/// How long an address may take to be resolved, unless a time is given. A neighbour is asked three
/// times in three seconds, and three times more from the sixth second on: a switch port that has
/// just come up may forward nothing at first.
pub const RESOLVE_LIMIT: Ns = Ns::from_ms(10_000);
/// Bytes of the longest frame: the greatest MTU (`--mtu`), an Ethernet header and two VLAN tags.
pub(super) const FRAME: usize = e810::LanInit::new(9702).max_frame();

/// An interface as a station has it.
pub(super) type StationInterface = Interface<Box<[Place]>, FRAME>;

/// The addresses of a function on its link, and its gateways.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    /// Its addresses, beside the link-local one of its MAC.
    pub addresses: Vec<OwnAddress>,
    /// Gateways to destinations on none of these networks, at most one of each family.
    pub gateways: Vec<IpAddr>,
    /// The VLAN of all of them.
    pub vlan: Option<u16>,
    /// Room for this many neighbours.
    pub neighbours: usize,
    /// How long an address may take to be resolved.
    pub resolve_limit: Ns,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            gateways: Vec::new(),
            vlan: None,
            neighbours: NEIGHBOURS,
            resolve_limit: RESOLVE_LIMIT,
        }
    }
}

impl Network {
    /// Whether packets to `ip` reach it without a router: it is in the network of one of our
    /// addresses of its family, or none of those has a network.
    pub fn is_on_link(&self, ip: IpAddr) -> bool {
        if matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
            return true;
        }
        let same = |own: &&OwnAddress| own.ip.is_ipv4() == ip.is_ipv4();
        let mut own = self.addresses.iter().filter(same).peekable();
        own.peek().is_none() || own.any(|own| own.has_on_link(ip))
    }

    /// The interface of a port with this MAC address, and the parts of the network that it does not
    /// take.
    pub(super) fn interface(
        &self,
        mac: MacAddr,
        mtu: u16,
        now: Ns,
    ) -> (Box<StationInterface>, Vec<(OwnAddress, AddressError)>) {
        let config = Config {
            vlan: self.vlan.map(|id| Vlan { id, priority: 0 }),
            mtu,
            // Addresses are those of the GID table, and no others.
            autoconfigure: false,
            // Queue pairs use them at once, so questions about them are answered at once.
            optimistic: true,
            seed: now.0 ^ u64::from(std::process::id()) << 32,
            ..Config::new(mac)
        };
        let places = vec![Place::EMPTY; self.neighbours].into_boxed_slice();
        let mut interface = Box::new(StationInterface::with_places(config, places, now));
        let mut refused = Vec::new();
        for own in &self.addresses {
            let length = own.prefix_length();
            let added = match own.ip {
                // Queue pairs use it at once, so it is announced at once.
                IpAddr::V4(v4) => interface.add_ipv4(v4, length, Claim::Announced, now),
                IpAddr::V6(v6) => interface.add_ipv6(v6, length, now),
            };
            match added {
                // The link-local address of the MAC exists.
                Ok(()) | Err(AddressError::Exists) => {}
                Err(error) => refused.push((*own, error)),
            }
        }
        for gateway in &self.gateways {
            let unspecified = match gateway {
                IpAddr::V4(_) => IpAddr::from([0; 4]),
                IpAddr::V6(_) => IpAddr::from([0; 16]),
            };
            if let Some(all) = Prefix::new(unspecified, 0) {
                // There are two of them at most, and each is a host's address.
                let _ = interface.set_route(all, *gateway);
            }
        }
        (interface, refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(addresses: &[&str]) -> Network {
        Network {
            addresses: addresses.iter().map(|own| own.parse().unwrap()).collect(),
            ..Network::default()
        }
    }

    #[test]
    fn the_link_is_what_prefixes_say() {
        let on_link = |network: &Network, ip: &str| network.is_on_link(ip.parse().unwrap());
        let own = network(&["192.0.2.1/24"]);
        assert!(on_link(&own, "192.0.2.9"));
        assert!(!on_link(&own, "192.0.3.9"));
        assert!(on_link(&own, "fe80::1"));
        assert!(on_link(&own, "2001:db8::1"), "nothing is said of IPv6");
        let own = network(&["192.0.2.1/24", "198.51.100.1/24"]);
        assert!(on_link(&own, "198.51.100.9"));
        assert!(on_link(&network(&["192.0.2.1"]), "203.0.113.1"));
        assert!(on_link(&network(&[]), "203.0.113.1"));
    }

    #[test]
    fn addresses_and_gateways_are_the_interface() {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let own = Network {
            gateways: vec!["192.0.2.254".parse().unwrap()],
            ..network(&["192.0.2.1/24", "192.0.2.1/24", "fe80::ff:fe00:1"])
        };
        let (interface, refused) = own.interface(mac, 9000, Ns::ZERO);
        assert_eq!(refused, []);
        assert_eq!(interface.addresses().count(), 2);
        let via = |ip: &str| interface.next_hop(ip.parse().unwrap()).unwrap().via;
        assert_eq!(via("192.0.2.9").to_string(), "192.0.2.9");
        assert_eq!(via("203.0.113.1").to_string(), "192.0.2.254");
        let (_, refused) = network(&["127.0.0.1"]).interface(mac, 1500, Ns::ZERO);
        assert_eq!(refused[0].1, AddressError::Invalid);
    }
}
