//! Own addresses: their states, and when each has something to do.

use core::fmt;
use core::net::IpAddr;

use heapless::Vec;

use crate::prefix::Prefix;
use crate::take::take;
use crate::time::{Ns, earliest};

/// Addresses of an interface, of both families.
pub const ADDRESSES: usize = 16;
/// Of these, made from advertised prefixes: an advertisement leaves room for the others.
pub(crate) const AUTOCONFIGURED: usize = 6;

/// Probes before an IPv4 address is used (RFC 5227 1.1, `PROBE_NUM`).
pub(crate) const PROBE_NUM: u8 = 3;
/// Random time before the first (RFC 5227 1.1, `PROBE_WAIT`).
pub(crate) const PROBE_WAIT: Ns = Ns::from_secs(1);
/// Time between probes, random in this range (RFC 5227 1.1, `PROBE_MIN`, `PROBE_MAX`).
pub(crate) const PROBE_MIN: Ns = Ns::from_secs(1);
pub(crate) const PROBE_MAX: Ns = Ns::from_secs(2);
/// Time from the last probe to the use (RFC 5227 1.1, `ANNOUNCE_WAIT`).
pub(crate) const ANNOUNCE_WAIT: Ns = Ns::from_secs(2);
/// Announcements of a new address (RFC 5227 1.1, `ANNOUNCE_NUM`, `ANNOUNCE_INTERVAL`).
pub(crate) const ANNOUNCE_NUM: u8 = 2;
pub(crate) const ANNOUNCE_INTERVAL: Ns = Ns::from_secs(2);
/// An address is defended at most this often (RFC 5227 1.1, `DEFEND_INTERVAL`).
pub(crate) const DEFEND_INTERVAL: Ns = Ns::from_secs(10);
/// Solicitations before an IPv6 address is used (RFC 4862 5.1, `DupAddrDetectTransmits`).
pub(crate) const DAD_TRANSMITS: u8 = 1;
/// Random time before the first (RFC 4861 10, `MAX_RTR_SOLICITATION_DELAY`; RFC 4862 5.4.2).
pub(crate) const DAD_DELAY: Ns = Ns::from_secs(1);
/// An advertisement does not shorten a valid lifetime below this (RFC 4862 5.5.3 e).
pub(crate) const TWO_HOURS: Ns = Ns::from_secs(2 * 60 * 60);

/// How an IPv4 address is taken into use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// After probing whether another station has it (RFC 5227 2.1), which takes 4 to 7 seconds.
    Probed,
    /// At once, with announcements (RFC 5227 2.3).
    Announced,
    /// At once, without a word.
    Unannounced,
}

/// Whether an address may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressState {
    /// Not yet: whether another station has it is being found out.
    Tentative,
    /// Yes.
    Preferred,
    /// Only for what uses it already (RFC 4862 5.5.4).
    Deprecated,
    /// No: another station has it.
    Duplicate,
}

/// Where an address comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It was set.
    Set,
    /// It follows from the MAC address (RFC 4862 5.3).
    LinkLocal,
    /// It was made of an advertised prefix (RFC 4862 5.5).
    Advertised,
}

/// An own address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The network whose hosts are neighbours, for one that was set.
    pub prefix: Prefix,
    /// Whether it may be used.
    pub state: AddressState,
    /// Where it comes from.
    pub origin: Origin,
    /// Until when it is preferred, if not for ever.
    pub preferred_until: Option<Ns>,
    /// Until when it is valid, if not for ever.
    pub valid_until: Option<Ns>,
    /// It is answered for while it is tentative (RFC 4429).
    pub(crate) is_optimistic: bool,
    /// Probes, or solicitations, sent.
    pub(crate) probes: u8,
    /// Announcements still to be sent.
    pub(crate) announcements: u8,
    /// When the next of either is due.
    pub(crate) next: Option<Ns>,
    /// When it was defended last.
    pub(crate) defended: Option<Ns>,
}

impl Address {
    pub(crate) const fn new(ip: IpAddr, prefix: Prefix, origin: Origin) -> Self {
        Self {
            ip,
            prefix,
            state: AddressState::Tentative,
            origin,
            preferred_until: None,
            valid_until: None,
            is_optimistic: false,
            probes: 0,
            announcements: 0,
            next: None,
            defended: None,
        }
    }

    /// Whether it is ours: packets to it are taken, and it may be a source.
    #[must_use]
    pub const fn is_usable(&self) -> bool {
        matches!(
            self.state,
            AddressState::Preferred | AddressState::Deprecated
        )
    }

    /// Whether who asks for it is answered: it is ours, or will be unless another station objects.
    pub(crate) const fn is_answered(&self) -> bool {
        self.is_usable() || self.is_optimistic && matches!(self.state, AddressState::Tentative)
    }

    /// When it next is older than it may be for new uses, or for any.
    fn ages(&self) -> Option<Ns> {
        let preferred = self
            .preferred_until
            .filter(|_| self.state == AddressState::Preferred);
        earliest(preferred, self.valid_until)
    }

    /// When it next has something to do.
    fn deadline(&self) -> Option<Ns> {
        earliest(self.next, self.ages())
    }
}

/// The addresses.
#[derive(Clone, Debug)]
pub(crate) struct Addresses(Vec<Address, ADDRESSES>);

impl Addresses {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Address> {
        self.0.iter()
    }

    pub(crate) fn get(&self, ip: IpAddr) -> Option<&Address> {
        self.0.iter().find(|address| address.ip == ip)
    }

    pub(crate) fn get_mut(&mut self, ip: IpAddr) -> Option<&mut Address> {
        self.0.iter_mut().find(|address| address.ip == ip)
    }

    /// Whether it is ours.
    pub(crate) fn owns(&self, ip: IpAddr) -> bool {
        self.get(ip).is_some_and(Address::is_usable)
    }

    /// Whether packets to it are taken.
    pub(crate) fn takes(&self, ip: IpAddr) -> bool {
        self.get(ip).is_some_and(Address::is_answered)
    }

    pub(crate) fn add(&mut self, address: Address) -> Result<(), AddressError> {
        if self.get(address.ip).is_some() {
            return Err(AddressError::Exists);
        }
        self.0.push(address).map_err(|_| AddressError::Full)
    }

    pub(crate) fn remove(&mut self, ip: IpAddr) -> Option<Address> {
        let place = self.0.iter().position(|address| address.ip == ip)?;
        take(&mut self.0, place)
    }

    /// Announces all IPv4 addresses again.
    pub(crate) fn announce(&mut self, now: Ns) {
        for address in &mut self.0 {
            if address.ip.is_ipv4() && address.is_usable() {
                address.announcements = ANNOUNCE_NUM;
                address.next = Some(now);
            }
        }
    }

    /// Whether there is a link-local address that may be used.
    pub(crate) fn has_link_local(&self) -> bool {
        let mut usable = self.0.iter().filter(|address| address.is_usable());
        usable.any(|address| address.origin == Origin::LinkLocal)
    }

    /// The first address that has something to send.
    pub(crate) fn due(&mut self, now: Ns) -> Option<&mut Address> {
        let is_due = |address: &&mut Address| address.next.is_some_and(|at| at <= now);
        self.0.iter_mut().find(is_due)
    }

    /// The first address whose lifetime, or a part of it, is over.
    pub(crate) fn aged(&mut self, now: Ns) -> Option<&mut Address> {
        let is_aged = |address: &&mut Address| address.ages().is_some_and(|at| at <= now);
        self.0.iter_mut().find(is_aged)
    }

    pub(crate) fn deadline(&self) -> Option<Ns> {
        self.0.iter().filter_map(Address::deadline).min()
    }

    /// Whether it is the broadcast address of a network that the interface is in.
    pub(crate) fn is_broadcast(&self, ip: IpAddr) -> bool {
        let IpAddr::V4(v4) = ip else { return false };
        v4.is_broadcast()
            || self
                .0
                .iter()
                .any(|address| address.is_usable() && address.prefix.broadcast() == Some(v4))
    }
}

/// Why an address is not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AddressError {
    /// No interface can have it: unspecified, multicast, broadcast, loopback, or the first or
    /// last one of its network.
    Invalid,
    /// The prefix is longer than the address.
    PrefixLength,
    /// The interface has it already.
    Exists,
    /// The table, or that of multicast groups, is full.
    Full,
    /// The interface has no IPv6.
    NoIpv6,
    /// The interface does not have it.
    NoSuch,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid => "not an address that an interface can have",
            Self::PrefixLength => "the prefix is longer than the address",
            Self::Exists => "the interface has this address already",
            Self::Full => "no room for one more address",
            Self::NoIpv6 => "the interface has no IPv6",
            Self::NoSuch => "the interface does not have this address",
        })
    }
}

impl core::error::Error for AddressError {}
