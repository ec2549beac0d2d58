//! Neighbour discovery (RFC 4861): solicitations and advertisements of neighbours and routers.

use core::net::Ipv6Addr;

use super::bytes::{Writer, array_at, u8_at, u16_at, u32_at};
use super::icmpv6::{ROUTER_SOLICITATION, seal};
use super::ipv6::{ICMPV6, Ipv6};
use crate::counters::DropReason;
use crate::mac::{MacAddr, solicited_node};

const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// Hop limit of all of these: no router has passed them on (RFC 4861 3.1).
pub const HOP_LIMIT: u8 = 255;

/// All nodes of the link (RFC 4291 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of the link (RFC 4291 2.7.1).
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 2);

const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
const PREFIX: u8 = 3;
const MTU: u8 = 5;

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

const ON_LINK: u8 = 0x80;
const AUTONOMOUS: u8 = 0x40;

/// A message that has come in.
pub(crate) struct Received<'b> {
    pub(crate) header: Ipv6,
    pub(crate) kind: u8,
    pub(crate) code: u8,
    /// What follows the checksum.
    pub(crate) body: &'b [u8],
}

/// A message of neighbour discovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nd<'b> {
    /// Asks for routers (RFC 4861 4.1).
    RouterSolicitation,
    /// A router with its parameters (RFC 4861 4.2).
    RouterAdvertisement(RouterAdvertisement<'b>),
    /// Asks who has an address (RFC 4861 4.3).
    Solicitation {
        /// The address.
        target: Ipv6Addr,
        /// MAC address of who asks.
        source_mac: Option<MacAddr>,
    },
    /// Tells who has an address (RFC 4861 4.4).
    Advertisement(Advertisement),
}

/// A neighbour advertisement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advertisement {
    /// The address.
    pub target: Ipv6Addr,
    /// Who has it; a reply to a unicast solicitation may leave it out.
    pub target_mac: Option<MacAddr>,
    /// The sender is a router.
    pub is_router: bool,
    /// It answers a solicitation.
    pub is_solicited: bool,
    /// It replaces a MAC address that is known.
    pub overrides: bool,
}

/// A router advertisement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouterAdvertisement<'b> {
    /// Hop limit that packets are to have; 0: not said.
    pub hop_limit: u8,
    /// Seconds for which the sender is a default router.
    pub lifetime: u16,
    /// Milliseconds for which a neighbour is reachable after it was heard; 0: not said.
    pub reachable_time: u32,
    /// Milliseconds between solicitations; 0: not said.
    pub retrans_timer: u32,
    /// MAC address of the router.
    pub source_mac: Option<MacAddr>,
    /// MTU of the link.
    pub mtu: Option<u32>,
    options: &'b [u8],
}

/// A prefix of a router advertisement (RFC 4861 4.6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdvertisedPrefix {
    /// The prefix.
    pub prefix: Ipv6Addr,
    /// Its length.
    pub length: u8,
    /// Its addresses are neighbours.
    pub is_on_link: bool,
    /// Addresses may be made of it.
    pub is_autonomous: bool,
    /// Seconds; `u32::MAX` is for ever.
    pub valid: u32,
    /// Seconds; `u32::MAX` is for ever.
    pub preferred: u32,
}

impl RouterAdvertisement<'_> {
    /// The prefixes.
    pub fn prefixes(&self) -> impl Iterator<Item = AdvertisedPrefix> {
        Options(self.options).filter_map(|option| {
            let (PREFIX, bytes) = option.ok()? else {
                return None;
            };
            // The option's length is fixed; another one is not this option.
            (bytes.len() == 32).then_some(())?;
            let flags = u8_at(bytes, 3)?;
            Some(AdvertisedPrefix {
                prefix: array_at::<16>(bytes, 16)?.into(),
                length: u8_at(bytes, 2)?,
                is_on_link: flags & ON_LINK != 0,
                is_autonomous: flags & AUTONOMOUS != 0,
                valid: u32_at(bytes, 4)?,
                preferred: u32_at(bytes, 8)?,
            })
        })
    }
}

/// Options, each with its type; one of length 0 ends the message (RFC 4861 4.6).
struct Options<'b>(&'b [u8]);

impl<'b> Iterator for Options<'b> {
    type Item = Result<(u8, &'b [u8]), DropReason>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let length = u8_at(self.0, 1).map_or(0, |units| usize::from(units) * 8);
        match self.0.split_at_checked(length) {
            Some((option, rest)) if length > 0 => {
                self.0 = rest;
                Some(Ok((u8_at(option, 0).unwrap_or(0), option)))
            }
            _ => {
                self.0 = &[];
                Some(Err(DropReason::BadMessage))
            }
        }
    }
}

/// What the options of a message say.
#[derive(Default)]
struct Known {
    source_mac: Option<MacAddr>,
    target_mac: Option<MacAddr>,
    mtu: Option<u32>,
}

impl Known {
    fn read(options: &[u8]) -> Result<Self, DropReason> {
        let mut known = Self::default();
        for option in Options(options) {
            let (kind, bytes) = option?;
            let mac = || array_at(bytes, 2).map(MacAddr).filter(|_| bytes.len() == 8);
            match kind {
                SOURCE_MAC => known.source_mac = mac(),
                TARGET_MAC => known.target_mac = mac(),
                MTU if bytes.len() == 8 => known.mtu = u32_at(bytes, 4),
                _ => {}
            }
        }
        let group = |mac: Option<MacAddr>| mac.is_some_and(|mac| !mac.is_unicast());
        match group(known.source_mac) || group(known.target_mac) {
            true => Err(DropReason::BadMessage),
            false => Ok(known),
        }
    }
}

impl<'b> Nd<'b> {
    /// A message that a receiver has to accept (RFC 4861 6.1, 7.1).
    pub(crate) fn parse(received: &Received<'b>) -> Result<Self, DropReason> {
        let Received {
            header, kind, code, ..
        } = received;
        if header.hop_limit != HOP_LIMIT {
            return Err(DropReason::BadHopLimit);
        }
        if *code != 0 {
            return Err(DropReason::BadMessage);
        }
        match *kind {
            ROUTER_SOLICITATION => {
                let options = received.body.get(4..).ok_or(DropReason::BadMessage)?;
                Known::read(options).map(|_| Self::RouterSolicitation)
            }
            ROUTER_ADVERTISEMENT => received.router_advertisement(),
            NEIGHBOUR_SOLICITATION => received.solicitation(),
            NEIGHBOUR_ADVERTISEMENT => received.advertisement(),
            // Redirects: hosts may ignore them, and an attacker could redirect.
            _ => Err(DropReason::OtherMessage),
        }
    }
}

impl<'b> Received<'b> {
    fn router_advertisement(&self) -> Result<Nd<'b>, DropReason> {
        let options = self.body.get(12..).ok_or(DropReason::BadMessage)?;
        let known = Known::read(options)?;
        if !self.header.source.is_unicast_link_local() {
            return Err(DropReason::BadMessage);
        }
        (|| {
            Some(Nd::RouterAdvertisement(RouterAdvertisement {
                hop_limit: u8_at(self.body, 0)?,
                lifetime: u16_at(self.body, 2)?,
                reachable_time: u32_at(self.body, 4)?,
                retrans_timer: u32_at(self.body, 8)?,
                source_mac: known.source_mac,
                mtu: known.mtu,
                options,
            }))
        })()
        .ok_or(DropReason::BadMessage)
    }

    /// The target and the options behind it.
    fn target(&self) -> Result<(Ipv6Addr, Known), DropReason> {
        let target = array_at::<16>(self.body, 4).ok_or(DropReason::BadMessage)?;
        let options = self.body.get(20..).ok_or(DropReason::BadMessage)?;
        let target = Ipv6Addr::from(target);
        if target.is_multicast() || target.is_unspecified() {
            return Err(DropReason::BadMessage);
        }
        Ok((target, Known::read(options)?))
    }

    fn solicitation(&self) -> Result<Nd<'b>, DropReason> {
        let (target, known) = self.target()?;
        let header = &self.header;
        // Duplicate address detection asks the group, and has no address to be answered at.
        let is_dad = header.source.is_unspecified();
        let is_group = header.destination == solicited_node(target);
        if is_dad && (!is_group || known.source_mac.is_some()) {
            return Err(DropReason::BadMessage);
        }
        Ok(Nd::Solicitation {
            target,
            source_mac: known.source_mac,
        })
    }

    fn advertisement(&self) -> Result<Nd<'b>, DropReason> {
        let (target, known) = self.target()?;
        let flags = u8_at(self.body, 0).ok_or(DropReason::BadMessage)?;
        let is_solicited = flags & SOLICITED != 0;
        if is_solicited && self.header.destination.is_multicast() {
            return Err(DropReason::BadMessage);
        }
        Ok(Nd::Advertisement(Advertisement {
            target,
            target_mac: known.target_mac,
            is_router: flags & ROUTER != 0,
            is_solicited,
            overrides: flags & OVERRIDE != 0,
        }))
    }
}

const fn header(source: Ipv6Addr, destination: Ipv6Addr) -> Ipv6 {
    Ipv6 {
        source,
        destination,
        protocol: ICMPV6,
        hop_limit: HOP_LIMIT,
        router_alert: false,
    }
}

fn put_mac(writer: &mut Writer<'_>, kind: u8, mac: Option<MacAddr>) {
    if let Some(mac) = mac {
        writer.put(&[kind, 1]);
        writer.put(&mac.0);
    }
}

const fn mac_length(mac: Option<MacAddr>) -> usize {
    if mac.is_some() { 8 } else { 0 }
}

/// Appends a neighbour solicitation with its IP header.
pub fn build_solicitation(
    writer: &mut Writer<'_>,
    (source, destination): (Ipv6Addr, Ipv6Addr),
    target: Ipv6Addr,
    source_mac: Option<MacAddr>,
) {
    header(source, destination).build(writer, 24 + mac_length(source_mac));
    let start = writer.length();
    writer.put(&[NEIGHBOUR_SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
    writer.put(&target.octets());
    put_mac(writer, SOURCE_MAC, source_mac);
    seal(writer, start, source, destination);
}

/// Appends a neighbour advertisement with its IP header.
pub fn build_advertisement(
    writer: &mut Writer<'_>,
    (source, destination): (Ipv6Addr, Ipv6Addr),
    advertisement: &Advertisement,
) {
    let mac = advertisement.target_mac;
    header(source, destination).build(writer, 24 + mac_length(mac));
    let start = writer.length();
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = flag(advertisement.is_router, ROUTER)
        | flag(advertisement.is_solicited, SOLICITED)
        | flag(advertisement.overrides, OVERRIDE);
    writer.put(&[NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0]);
    writer.put(&advertisement.target.octets());
    put_mac(writer, TARGET_MAC, mac);
    seal(writer, start, source, destination);
}

/// Appends a router solicitation with its IP header.
pub fn build_router_solicitation(
    writer: &mut Writer<'_>,
    source: Ipv6Addr,
    source_mac: Option<MacAddr>,
) {
    header(source, ALL_ROUTERS).build(writer, 8 + mac_length(source_mac));
    let start = writer.length();
    writer.put(&[ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
    put_mac(writer, SOURCE_MAC, source_mac);
    seal(writer, start, source, ALL_ROUTERS);
}
