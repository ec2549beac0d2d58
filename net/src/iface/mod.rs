//! The interface: addresses, routes and groups that are set, and what is asked of it.

mod advertisement;
mod arp;
mod discovery;
mod echo;
mod poll;
mod receive;
mod report;
mod routing;
mod timers;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use poll::FRAMES_PER_POLL;
use poll::Held;

use crate::address::{
    Address, AddressError, AddressState, Addresses, Claim, DAD_DELAY, Origin, PROBE_WAIT,
};
use crate::bucket::{ECHO_BURST, ECHO_PER_SECOND, TokenBucket};
use crate::config::Config;
use crate::counters::Counters;
use crate::event::{Event, Events};
use crate::group::{GroupError, Groups};
use crate::mac::{MacAddr, link_local, solicited_node};
use crate::neighbour::{Neighbour, Neighbours, Place, Places};
use crate::path_mtu::PathMtus;
use crate::ping::{PING_LENGTH, Ping, PingError, Pings};
use crate::prefix::Prefix;
use crate::random::Random;
use crate::route::{RouteError, Routes};
use crate::router::Routers;
use crate::time::Ns;

/// An interface with room for the neighbours of its `P`, and for frames of `FRAME` bytes (at least
/// 1298), which should be the MTU and 22 bytes of headers.
#[derive(Clone, Debug)]
pub struct Interface<P = [Place; 32], const FRAME: usize = 1522> {
    config: Config,
    addresses: Addresses,
    neighbours: Neighbours<P>,
    routes: Routes,
    routers: Routers,
    groups: Groups,
    paths: PathMtus,
    pings: Pings,
    echo: TokenBucket,
    events: Events,
    counters: Counters,
    random: Random,
    /// A frame that the port had no room for.
    held: Option<Held<FRAME>>,
}

impl<const N: usize, const FRAME: usize> Interface<[Place; N], FRAME> {
    /// An interface that has its link-local address only, if it has IPv6, with room for `N`
    /// neighbours.
    #[must_use]
    pub fn new(config: Config, now: Ns) -> Self {
        const { assert!(N >= 4, "room for a learnt neighbour") }
        Self::with_places(config, [const { Place::EMPTY }; N], now)
    }
}

impl<P: Places, const FRAME: usize> Interface<P, FRAME> {
    /// The same, whose neighbours have these places: four at least, or none is learnt.
    #[must_use]
    pub fn with_places(config: Config, places: P, now: Ns) -> Self {
        const {
            assert!(FRAME >= 1298, "room for every packet that IPv6 guarantees");
        }
        let random = Random::new(config.mac, config.seed);
        let mut interface = Self {
            config,
            addresses: Addresses::new(),
            neighbours: Neighbours::new(places, Random::new(config.mac, !config.seed)),
            routes: Routes::new(),
            routers: Routers::new(),
            groups: Groups::new(),
            paths: PathMtus::new(),
            pings: Pings::new(),
            echo: TokenBucket::new(ECHO_PER_SECOND, ECHO_BURST, now),
            events: Events::new(),
            counters: Counters::new(),
            random,
            held: None,
        };
        if config.ipv6
            && let Some(prefix) = Prefix::new(link_local(config.mac).into(), 64)
        {
            let ip = link_local(config.mac).into();
            // The tables are empty.
            let _ = interface.add_v6(Address::new(ip, prefix, Origin::LinkLocal), now);
        }
        interface
    }

    /// The port's own MAC address.
    #[must_use]
    pub const fn mac(&self) -> MacAddr {
        self.config.mac
    }

    /// Counts of frames.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The oldest event that was not taken yet.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Events that found no room and are lost.
    #[must_use]
    pub const fn events_lost(&self) -> u64 {
        self.events.lost()
    }

    /// The own addresses, in every state.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.addresses.iter()
    }

    /// The neighbour cache.
    pub fn neighbours(&self) -> impl Iterator<Item = Neighbour> {
        self.neighbours.iter()
    }

    /// How many neighbours it has room for.
    #[must_use]
    pub fn neighbour_room(&self) -> usize {
        self.neighbours.room()
    }

    /// What is known of one neighbour.
    #[must_use]
    pub fn neighbour(&self, ip: IpAddr) -> Option<Neighbour> {
        self.neighbours.get(ip)
    }

    /// Default routers, the preferred one first.
    pub fn routers(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.routers.defaults.iter()
    }

    /// Multicast groups whose packets have to come in, beside those of all hosts and all nodes:
    /// what the port has to be set up for.
    pub fn groups(&self) -> impl Iterator<Item = IpAddr> {
        self.groups.iter()
    }

    /// Adds an IPv4 address with the prefix of its network.
    ///
    /// # Errors
    ///
    /// [`AddressError`]; nothing has changed then.
    pub fn add_ipv4(
        &mut self,
        ip: Ipv4Addr,
        length: u8,
        claim: Claim,
        now: Ns,
    ) -> Result<(), AddressError> {
        let prefix = Prefix::new(ip.into(), length).ok_or(AddressError::PrefixLength)?;
        let is_edge = length < 31 && prefix.ip() == IpAddr::V4(ip);
        let is_broadcast = prefix.broadcast() == Some(ip) || ip.is_broadcast();
        if is_edge || is_broadcast || ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
            return Err(AddressError::Invalid);
        }
        let mut address = Address::new(ip.into(), prefix, Origin::Set);
        match claim {
            Claim::Probed => {
                address.next = Some(now + self.random.between(Ns::ZERO, PROBE_WAIT));
            }
            Claim::Announced => {
                address.state = AddressState::Preferred;
                address.announcements = crate::address::ANNOUNCE_NUM;
                address.next = Some(now);
            }
            Claim::Unannounced => address.state = AddressState::Preferred,
        }
        self.addresses.add(address)?;
        if address.is_usable() {
            self.ours(address.ip);
        }
        Ok(())
    }

    /// Adds an IPv6 address with the prefix of its network. It may be used when no other station
    /// has claimed it for about a second (RFC 4862 5.4), which an [`Event`] says.
    ///
    /// # Errors
    ///
    /// [`AddressError`]; nothing has changed then.
    pub fn add_ipv6(&mut self, ip: Ipv6Addr, length: u8, now: Ns) -> Result<(), AddressError> {
        let prefix = Prefix::new(ip.into(), length).ok_or(AddressError::PrefixLength)?;
        if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
            return Err(AddressError::Invalid);
        }
        if !self.config.ipv6 {
            return Err(AddressError::NoIpv6);
        }
        self.add_v6(Address::new(ip.into(), prefix, Origin::Set), now)
    }

    /// An IPv6 address whose detection of duplicates begins.
    fn add_v6(&mut self, mut address: Address, now: Ns) -> Result<(), AddressError> {
        address.next = Some(now + self.random.between(Ns::ZERO, DAD_DELAY));
        address.is_optimistic = self.config.optimistic;
        self.addresses.add(address)?;
        if let IpAddr::V6(v6) = address.ip
            && self.groups.join(solicited_node(v6).into(), now).is_err()
        {
            self.addresses.remove(address.ip);
            return Err(AddressError::Full);
        }
        Ok(())
    }

    /// An address is ours from now on.
    fn ours(&mut self, ip: IpAddr) {
        self.neighbours.forget(ip);
        self.events.push(Event::AddressAdded(ip));
    }

    /// Removes an own address.
    ///
    /// # Errors
    ///
    /// [`AddressError::NoSuch`].
    pub fn remove_address(&mut self, ip: IpAddr, now: Ns) -> Result<(), AddressError> {
        let address = self.addresses.remove(ip).ok_or(AddressError::NoSuch)?;
        // The group of a duplicate was left when it was found.
        if let IpAddr::V6(v6) = ip
            && address.state != AddressState::Duplicate
        {
            let _ = self.groups.leave(solicited_node(v6).into(), now);
        }
        if address.is_usable() {
            self.events.push(Event::AddressRemoved(ip));
        }
        Ok(())
    }

    /// Another station uses an address of ours, or claims it as we do.
    fn conflict(&mut self, ip: IpAddr, by: MacAddr, now: Ns) {
        let Some(address) = self.addresses.get_mut(ip) else {
            return;
        };
        match address.state {
            AddressState::Duplicate => {}
            AddressState::Tentative => {
                address.state = AddressState::Duplicate;
                address.next = None;
                if let IpAddr::V6(v6) = ip {
                    let _ = self.groups.leave(solicited_node(v6).into(), now);
                }
                self.events.push(Event::AddressDuplicate { ip, by });
            }
            AddressState::Preferred | AddressState::Deprecated => {
                let interval = crate::address::DEFEND_INTERVAL;
                if address.defended.is_some_and(|at| now - at < interval) {
                    return;
                }
                address.defended = Some(now);
                if ip.is_ipv4() {
                    address.announcements = address.announcements.max(1);
                    address.next = Some(now);
                }
                self.events.push(Event::AddressContended { ip, by });
            }
        }
    }

    /// Sets the gateway of a prefix; a prefix of length 0 is the default route.
    ///
    /// # Errors
    ///
    /// [`RouteError`].
    pub fn set_route(&mut self, prefix: Prefix, gateway: IpAddr) -> Result<(), RouteError> {
        self.routes.set(prefix, gateway)
    }

    /// Removes a route that was set.
    ///
    /// # Errors
    ///
    /// [`RouteError::NoSuch`].
    pub fn remove_route(&mut self, prefix: Prefix) -> Result<(), RouteError> {
        self.routes.remove(prefix)
    }

    /// Joins a multicast group, once more if it was joined before, and reports it.
    ///
    /// # Errors
    ///
    /// [`GroupError`].
    pub fn join(&mut self, group: IpAddr, now: Ns) -> Result<(), GroupError> {
        self.groups.join(group, now)
    }

    /// Takes one joining of a group back; with the last one the group is left.
    ///
    /// # Errors
    ///
    /// [`GroupError::NoSuch`].
    pub fn leave(&mut self, group: IpAddr, now: Ns) -> Result<(), GroupError> {
        self.groups.leave(group, now)
    }

    /// Asks for an echo, with as much payload as other pings send. An
    /// [`EchoReply`](Event::EchoReply) or [`EchoFailed`](Event::EchoFailed) follows.
    ///
    /// # Errors
    ///
    /// [`PingError`].
    pub fn ping(&mut self, ip: IpAddr, ident: u16, seq: u16, now: Ns) -> Result<(), PingError> {
        let length = PING_LENGTH;
        self.ping_with(
            Ping {
                ip,
                ident,
                seq,
                length,
            },
            now,
        )
    }

    /// Asks for an echo with so many bytes of payload.
    ///
    /// # Errors
    ///
    /// [`PingError`].
    pub fn ping_with(&mut self, ping: Ping, now: Ns) -> Result<(), PingError> {
        let ip = ping.ip;
        if ip.is_multicast() || ip.is_unspecified() || self.addresses.is_broadcast(ip) {
            return Err(PingError::NotUnicast);
        }
        if self.addresses.owns(ip) {
            self.events.push(Event::EchoReply {
                ip,
                ident: ping.ident,
                seq: ping.seq,
                length: ping.length,
                round_trip: Ns::ZERO,
            });
            return Ok(());
        }
        self.pings.ask(ping, now)
    }

    /// The link came up: others may have forgotten us, and routers may be others.
    pub fn link_up(&mut self, now: Ns) {
        self.addresses.announce(now);
        if self.addresses.has_link_local() {
            self.solicit_routers(now);
        }
    }
}
