//! A frame on its way to the protocol that it is for.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Interface;
use crate::counters::DropReason;
use crate::group::GroupQuery;
use crate::mac::MacAddr;
use crate::neighbour::Places;
use crate::path_mtu::reported;
use crate::time::Ns;
use crate::wire::icmpv4::Icmpv4;
use crate::wire::icmpv6::Icmpv6;
use crate::wire::nd::Nd;
use crate::wire::{
    ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet, ICMPV4, ICMPV6, IGMP, Ipv4, Ipv6,
    Writer, igmp,
};

/// The length of a reply, if there is one.
pub(super) type Reply = Result<Option<usize>, DropReason>;

impl<P: Places, const FRAME: usize> Interface<P, FRAME> {
    pub(super) fn receive(&mut self, now: Ns, frame: &[u8], out: &mut [u8]) -> Reply {
        let (ethernet, payload) = Ethernet::parse(frame)?;
        let own = self.config.vlan.map_or(0, |vlan| vlan.id);
        // A tag with id 0 has a priority only (IEEE 802.1Q 6.9.1).
        if ethernet.vlan.map_or(0, |vlan| vlan.id) != own {
            return Err(DropReason::OtherVlan);
        }
        let to = ethernet.destination;
        if to != self.config.mac && !to.is_multicast() {
            return Err(DropReason::OtherStation);
        }
        if ethernet.source == self.config.mac {
            return Err(DropReason::OwnSource);
        }
        if !ethernet.source.is_unicast() {
            return Err(DropReason::BadSourceMac);
        }
        match ethernet.ethertype {
            ETHERTYPE_ARP => self.arp(now, &ethernet, payload, out),
            ETHERTYPE_IPV4 => self.ipv4(now, &ethernet, payload, out),
            ETHERTYPE_IPV6 if self.config.ipv6 => self.ipv6(now, &ethernet, payload, out),
            _ => Err(DropReason::OtherEthertype),
        }
    }

    /// Begins a frame of ours.
    pub(super) fn start<'o>(
        &self,
        out: &'o mut [u8],
        destination: MacAddr,
        ethertype: u16,
    ) -> Writer<'o> {
        // A frame is sent as a whole, or kept: it may not be longer than what keeps it.
        let length = out.len().min(FRAME);
        let mut writer = Writer::new(out.get_mut(..length).unwrap_or_default());
        let header = Ethernet {
            destination,
            source: self.config.mac,
            vlan: self.config.vlan,
            ethertype,
        };
        header.build(&mut writer);
        writer
    }

    fn ipv4(&mut self, now: Ns, ethernet: &Ethernet, payload: &[u8], out: &mut [u8]) -> Reply {
        let (header, message) = Ipv4::parse(payload)?;
        let to = IpAddr::V4(header.destination);
        let is_own = self.addresses.owns(to);
        if !is_own && !self.addresses.is_broadcast(to) && !self.groups.contains(to) {
            return Err(DropReason::OtherAddress);
        }
        // A unicast packet in a broadcast frame (RFC 1122 3.3.6).
        if is_own && ethernet.destination.is_multicast() {
            return Err(DropReason::OtherStation);
        }
        let is_query = header.protocol == IGMP;
        self.check_v4_source(header.source, is_query)?;
        match header.protocol {
            ICMPV4 => match Icmpv4::parse(message)? {
                Icmpv4::Echo {
                    is_reply: true,
                    ident,
                    seq,
                    payload,
                } => self.echo_reply(header.source.into(), (ident, seq), payload, now),
                Icmpv4::Echo {
                    ident,
                    seq,
                    payload,
                    ..
                } if is_own => self.echo_v4(now, ethernet, &header, (ident, seq), payload, out),
                Icmpv4::Echo { .. } => Err(DropReason::EchoToGroup),
                Icmpv4::TooBig {
                    source,
                    destination,
                    mtu,
                    length,
                } => {
                    let mtu = reported(mtu, length).into();
                    self.too_big(source.into(), destination.into(), mtu, now)
                }
            },
            IGMP => {
                let query = igmp::Query::parse(message)?;
                let query = GroupQuery {
                    is_ipv4: true,
                    version: query.version,
                    group: query.group.map(IpAddr::V4),
                    max_response: query.max_response,
                };
                self.groups.query(&query, now, &mut self.random);
                Ok(None)
            }
            _ => Err(DropReason::OtherProtocol),
        }
    }

    /// Addresses that no host sends from (RFC 1122 3.2.1.3); a switch asks for groups without
    /// an address of its own (RFC 4541 2.1.1).
    fn check_v4_source(&self, source: Ipv4Addr, is_query: bool) -> Result<(), DropReason> {
        let ip = IpAddr::V4(source);
        let is_bad = source.is_multicast()
            || source.is_loopback()
            || source.is_unspecified() && !is_query
            || self.addresses.is_broadcast(ip)
            || self.addresses.owns(ip);
        if is_bad {
            return Err(DropReason::BadSourceAddress);
        }
        Ok(())
    }

    fn ipv6(&mut self, now: Ns, ethernet: &Ethernet, payload: &[u8], out: &mut [u8]) -> Reply {
        let (header, message) = Ipv6::parse(payload)?;
        let to = IpAddr::V6(header.destination);
        if !self.addresses.takes(to) && !self.groups.contains(to) {
            return Err(DropReason::OtherAddress);
        }
        let source = header.source;
        if source.is_multicast() || source.is_loopback() {
            return Err(DropReason::BadSourceAddress);
        }
        if header.protocol != ICMPV6 {
            return Err(DropReason::OtherProtocol);
        }
        let message = Icmpv6::parse(&header, message)?;
        if self.addresses.owns(source.into()) {
            // A message that no router has passed on: another station has this address.
            if let Icmpv6::Nd(_) = message {
                self.conflict(source.into(), ethernet.source, now);
            }
            return Err(DropReason::BadSourceAddress);
        }
        match message {
            Icmpv6::Echo {
                is_reply: true,
                ident,
                seq,
                payload,
            } => self.echo_reply(source.into(), (ident, seq), payload, now),
            Icmpv6::Echo {
                ident,
                seq,
                payload,
                ..
            } => self.echo_v6(now, ethernet, &header, (ident, seq), payload, out),
            Icmpv6::TooBig {
                source,
                destination,
                mtu,
            } => self.too_big(source.into(), destination.into(), mtu, now),
            Icmpv6::Nd(message) => self.discovery(now, ethernet, &header, &message, out),
            Icmpv6::MldQuery(query) => {
                let query = GroupQuery {
                    is_ipv4: false,
                    version: query.version,
                    group: query.group.map(IpAddr::V6),
                    max_response: query.max_response,
                };
                self.groups.query(&query, now, &mut self.random);
                Ok(None)
            }
        }
    }

    fn discovery(
        &mut self,
        now: Ns,
        ethernet: &Ethernet,
        header: &Ipv6,
        message: &Nd<'_>,
        out: &mut [u8],
    ) -> Reply {
        match message {
            // Only routers answer.
            Nd::RouterSolicitation => Err(DropReason::OtherMessage),
            Nd::RouterAdvertisement(advertisement) => {
                self.router_advertisement(now, header.source, advertisement)
            }
            Nd::Solicitation { target, source_mac } => {
                self.solicitation(now, ethernet, header, (*target, *source_mac), out)
            }
            Nd::Advertisement(advertisement) => {
                self.neighbour_advertisement(now, ethernet.source, advertisement)
            }
        }
    }

    /// A router says that a packet of ours was too long (RFC 8201 4, RFC 1191 3).
    fn too_big(&mut self, source: IpAddr, destination: IpAddr, mtu: u32, now: Ns) -> Reply {
        let is_path = !destination.is_multicast()
            && !destination.is_unspecified()
            && !destination.is_loopback()
            && !self.addresses.owns(destination);
        if !self.addresses.owns(source) || !is_path {
            return Err(DropReason::QuotedNotOurs);
        }
        let link = self.link_mtu(destination);
        let lower = self.paths.report(destination, mtu, link, now);
        let mtu = lower.ok_or(DropReason::PathMtuIgnored)?;
        self.events.push(crate::event::Event::PathMtu {
            ip: destination,
            mtu,
        });
        Ok(None)
    }

    /// Largest IP packet of the link.
    pub(super) fn link_mtu(&self, ip: IpAddr) -> u16 {
        let advertised = self.routers.mtu.filter(|_| ip.is_ipv6());
        advertised.unwrap_or(self.config.mtu).min(self.config.mtu)
    }

    /// Whether an IPv6 source may be answered.
    pub(super) fn is_answerable(source: Ipv6Addr) -> bool {
        !source.is_unspecified() && !source.is_multicast()
    }
}
