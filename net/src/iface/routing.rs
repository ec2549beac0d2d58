//! Where a packet goes: own addresses as sources, next hops, and their MAC addresses.

use core::net::IpAddr;

use super::Interface;
use crate::address::{Address, AddressState};
use crate::mac::{MacAddr, multicast_mac};
use crate::neighbour::{NeighbourState, Places, Resolution};
use crate::prefix::{Prefix, common_bits};
use crate::route::NextHop;
use crate::router::HOP_LIMIT;
use crate::time::Ns;

impl<P: Places, const FRAME: usize> Interface<P, FRAME> {
    /// The MAC address that frames to an IP address have; its neighbour is asked if it is not
    /// known. Neither multicast nor broadcast nor an own address needs to be asked for.
    pub fn lookup(&mut self, ip: IpAddr, now: Ns) -> Resolution {
        if let Some(mac) = self.fixed_mac(ip) {
            return Resolution::Known(mac);
        }
        match self.next_hop(ip) {
            Some(hop) => self.neighbours.lookup(hop.via, now),
            None => self.without_route(ip),
        }
    }

    /// As [`lookup`](Self::lookup), for a user that stays, such as a connected queue pair: the
    /// neighbour keeps its place in the cache, is confirmed without further lookups, and is asked
    /// again while it does not answer. The next hop is what
    /// [`unwatch`](Self::unwatch) takes; there is none for what needs no neighbour, where there is
    /// no route yet, and where there is no room: then nothing is watched. It stays the next hop of
    /// this user when routes change.
    pub fn watch(&mut self, ip: IpAddr, now: Ns) -> (Resolution, Option<NextHop>) {
        if let Some(mac) = self.fixed_mac(ip) {
            return (Resolution::Known(mac), None);
        }
        let Some(hop) = self.next_hop(ip) else {
            return (self.without_route(ip), None);
        };
        match self.neighbours.watch(hop.via, now) {
            Resolution::NoRoom => (Resolution::NoRoom, None),
            resolution => (resolution, Some(hop)),
        }
    }

    /// One user less of a next hop that [`watch`](Self::watch) gave.
    pub fn unwatch(&mut self, hop: NextHop) {
        self.neighbours.unwatch(hop.via);
    }

    /// A protocol above has seen that what is sent through a next hop arrives (RFC 4861 7.3.1).
    pub fn confirm(&mut self, hop: NextHop, now: Ns) {
        self.neighbours.confirm(hop.via, now);
    }

    /// Largest IP packet that the path to an address carries, as far as is known.
    #[must_use]
    pub fn path_mtu(&self, ip: IpAddr) -> u16 {
        let link = self.link_mtu(ip);
        self.paths.get(ip).map_or(link, |path| path.min(link))
    }

    /// How far a packet to a unicast address goes: time to live or hop limit. Of IPv6 as a router
    /// has said last, where one has (RFC 4861 6.3.4).
    #[must_use]
    pub const fn hop_limit(&self, ip: IpAddr) -> u8 {
        match ip {
            IpAddr::V4(_) => HOP_LIMIT,
            IpAddr::V6(_) => self.routers.hop_limit,
        }
    }

    /// Where packets to a unicast address go, and as whose: by the longest prefix.
    #[must_use]
    pub fn next_hop(&self, ip: IpAddr) -> Option<NextHop> {
        if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() {
            return None;
        }
        let connected = self.connected().filter(|prefix| prefix.contains(ip));
        let connected = connected.map(|prefix| prefix.length()).max();
        let route = self.routes.find(ip);
        let via = match (connected, route) {
            (Some(length), Some((prefix, gateway))) if prefix.length() > length => gateway,
            (Some(_), _) => ip,
            (None, Some((_, gateway))) => gateway,
            (None, None) => self.default_router(ip)?,
        };
        let source = self.source(ip, via)?;
        Some(NextHop { via, source })
    }

    /// The networks whose hosts are neighbours.
    fn connected(&self) -> impl Iterator<Item = Prefix> {
        let own = self.addresses.iter().filter(|address| address.is_usable());
        let own = own.map(|address| address.prefix);
        own.chain(self.routers.on_link.iter())
    }

    /// Whether an address is a neighbour's.
    pub(super) fn is_on_link(&self, ip: IpAddr) -> bool {
        self.connected().any(|prefix| prefix.contains(ip))
    }

    /// A router that answers, if there is one (RFC 4861 6.3.6).
    fn default_router(&self, ip: IpAddr) -> Option<IpAddr> {
        if ip.is_ipv4() {
            return None;
        }
        let mut routers = self.routers.defaults.iter().map(IpAddr::V6);
        let failed = Some(NeighbourState::Failed);
        let answering = routers.find(|router| self.neighbours.state(*router) != failed);
        answering.or_else(|| self.routers.defaults.iter().map(IpAddr::V6).next())
    }

    /// The own address of a packet to `ip` (of RFC 6724 5 the rules about scope, deprecated
    /// addresses and the longest prefix).
    pub(super) fn source(&self, ip: IpAddr, via: IpAddr) -> Option<IpAddr> {
        let usable = self.addresses.iter();
        let usable = usable.filter(|own| own.is_usable() && own.ip.is_ipv4() == ip.is_ipv4());
        let best = usable.max_by_key(|own| {
            (
                is_link_local(own.ip) == is_link_local(ip),
                own.state == AddressState::Preferred,
                ip.is_ipv4() && own.prefix.contains(via),
                common_bits(own.ip, ip),
            )
        });
        best.map(|own: &Address| own.ip)
    }

    /// The MAC address of what no neighbour has to be asked for.
    fn fixed_mac(&self, ip: IpAddr) -> Option<MacAddr> {
        if self.addresses.owns(ip) {
            return Some(self.config.mac);
        }
        let broadcast = self.addresses.is_broadcast(ip);
        multicast_mac(ip).or_else(|| broadcast.then_some(MacAddr::BROADCAST))
    }

    /// There may be a route when an own address has passed the search for duplicates.
    fn without_route(&self, ip: IpAddr) -> Resolution {
        let mut own = self.addresses.iter();
        let is_waiting =
            own.any(|own| own.state == AddressState::Tentative && own.prefix.contains(ip));
        match is_waiting {
            true => Resolution::Pending,
            false => Resolution::NoRoute,
        }
    }
}

/// Whether an IPv6 address is of the link only.
const fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}
