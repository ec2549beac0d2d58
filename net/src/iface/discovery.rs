//! Neighbour solicitations and advertisements that come in, and our own.

use core::net::{IpAddr, Ipv6Addr};

use super::Interface;
use super::receive::Reply;
use crate::address::{Address, AddressState};
use crate::counters::DropReason;
use crate::mac::{MacAddr, multicast_mac, solicited_node};
use crate::neighbour::{Heard, Places, Reply as NeighbourReply};
use crate::time::Ns;
use crate::wire::nd::{self, Advertisement};
use crate::wire::{ETHERTYPE_IPV6, Ethernet, Ipv6};

impl<P: Places, const FRAME: usize> Interface<P, FRAME> {
    /// A neighbour asks for an address (RFC 4861 7.2.3).
    pub(super) fn solicitation(
        &mut self,
        now: Ns,
        ethernet: &Ethernet,
        header: &Ipv6,
        (target, source_mac): (Ipv6Addr, Option<MacAddr>),
        out: &mut [u8],
    ) -> Reply {
        let ip = IpAddr::V6(target);
        let own = self.addresses.get(ip);
        let state = own.map(|address| address.state);
        let is_answered = own.is_some_and(Address::is_answered);
        let is_dad = header.source.is_unspecified();
        match state {
            // Another station wants the same address (RFC 4862 5.4.3).
            Some(AddressState::Tentative) if is_dad => {
                self.conflict(ip, ethernet.source, now);
                return Ok(None);
            }
            Some(_) if is_answered => {}
            _ => return Err(DropReason::OtherAddress),
        }
        let source = IpAddr::V6(header.source);
        if !is_dad
            && let Some(mac) = source_mac
            && self.is_on_link(source)
            && !self.neighbours.learn(source, mac, now, &mut self.events)
        {
            self.counters.drop(DropReason::NeighbourRoom);
        }
        let (destination, mac) = match is_dad {
            true => (nd::ALL_NODES, multicast_mac(nd::ALL_NODES.into())),
            false => (header.source, source_mac),
        };
        // Without the option the reply goes where the question came from.
        let mut writer = self.start(out, mac.unwrap_or(ethernet.source), ETHERTYPE_IPV6);
        nd::build_advertisement(
            &mut writer,
            (target, destination),
            &Advertisement {
                target,
                target_mac: Some(self.config.mac),
                is_router: false,
                is_solicited: !is_dad,
                // An entry of a station that may have the address stays (RFC 4429 3.3).
                overrides: state != Some(AddressState::Tentative),
            },
        );
        Ok(writer.finish())
    }

    /// A neighbour says where an address is (RFC 4861 7.2.5).
    pub(super) fn neighbour_advertisement(
        &mut self,
        now: Ns,
        from: MacAddr,
        advertisement: &Advertisement,
    ) -> Reply {
        let ip = IpAddr::V6(advertisement.target);
        if self.addresses.get(ip).is_some() {
            self.conflict(ip, advertisement.target_mac.unwrap_or(from), now);
            return Ok(None);
        }
        let reply = NeighbourReply {
            ip,
            mac: advertisement.target_mac,
            is_solicited: advertisement.is_solicited,
            overrides: advertisement.overrides,
            is_router: advertisement.is_router,
        };
        match self.neighbours.reply(&reply, now, &mut self.events) {
            Heard::Unasked => Err(DropReason::NeighbourUnasked),
            Heard::Taken => Ok(None),
            Heard::NoRouter => {
                self.set_router(advertisement.target, Some(now), now);
                Ok(None)
            }
        }
    }

    /// A solicitation for a neighbour, or, without a source, for duplicates of an address.
    pub(super) fn solicit_v6(
        &self,
        out: &mut [u8],
        to: Option<MacAddr>,
        source: Option<Ipv6Addr>,
        target: Ipv6Addr,
    ) -> Option<usize> {
        let group = solicited_node(target);
        let destination = if to.is_some() { target } else { group };
        let mac = to.or_else(|| multicast_mac(group.into()))?;
        let mut writer = self.start(out, mac, ETHERTYPE_IPV6);
        let from = source.unwrap_or(Ipv6Addr::UNSPECIFIED);
        let own = source.map(|_| self.config.mac);
        nd::build_solicitation(&mut writer, (from, destination), target, own);
        writer.finish()
    }
}
