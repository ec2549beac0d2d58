//! ARP packets that come in, and those of our own addresses.

use core::net::{IpAddr, Ipv4Addr};

use super::Interface;
use super::receive::Reply;
use crate::address::AddressState;
use crate::counters::DropReason;
use crate::mac::MacAddr;
use crate::neighbour::{Heard, Places, Reply as NeighbourReply};
use crate::time::Ns;
use crate::wire::arp::{Arp, Operation};
use crate::wire::{ETHERTYPE_ARP, Ethernet};

impl<P: Places, const FRAME: usize> Interface<P, FRAME> {
    pub(super) fn arp(
        &mut self,
        now: Ns,
        ethernet: &Ethernet,
        payload: &[u8],
        out: &mut [u8],
    ) -> Reply {
        let arp = Arp::parse(payload)?;
        if arp.sender_mac == self.config.mac {
            return Err(DropReason::OwnSource);
        }
        let (sender, target) = (IpAddr::V4(arp.sender_ip), IpAddr::V4(arp.target_ip));
        if self.addresses.get(sender).is_some() {
            self.conflict(sender, arp.sender_mac, now);
            return Ok(None);
        }
        let is_probe = arp.sender_ip.is_unspecified();
        let state = self.addresses.get(target).map(|address| address.state);
        // Two stations that probe for the same address (RFC 5227 2.1.1).
        if is_probe && state == Some(AddressState::Tentative) {
            self.conflict(target, arp.sender_mac, now);
            return Ok(None);
        }
        if arp.operation == Operation::Reply {
            return self.arp_reply(now, ethernet, &arp);
        }
        let is_own = self.addresses.owns(target);
        // A request says where its sender is: what is known is kept up to date (RFC 826), and
        // only a request for us makes an entry.
        let is_known = self.neighbours.state(sender).is_some();
        if !is_probe && (is_known || is_own && self.is_on_link(sender)) {
            let events = &mut self.events;
            if !self.neighbours.learn(sender, arp.sender_mac, now, events) {
                self.counters.drop(DropReason::NeighbourRoom);
            }
        }
        if !is_own {
            return match is_known {
                true => Ok(None),
                false => Err(DropReason::ArpNotForUs),
            };
        }
        Ok(self.arp_frame(
            out,
            arp.sender_mac,
            &Arp {
                operation: Operation::Reply,
                sender_mac: self.config.mac,
                sender_ip: arp.target_ip,
                target_mac: arp.sender_mac,
                target_ip: arp.sender_ip,
            },
        ))
    }

    fn arp_reply(&mut self, now: Ns, ethernet: &Ethernet, arp: &Arp) -> Reply {
        let is_ours = ethernet.destination == self.config.mac
            && arp.target_mac == self.config.mac
            && self.addresses.owns(arp.target_ip.into());
        let reply = NeighbourReply {
            ip: arp.sender_ip.into(),
            mac: Some(arp.sender_mac),
            // ARP has no flag that says so, and any station may send a reply.
            is_solicited: is_ours && self.neighbours.is_asked(arp.sender_ip.into()),
            overrides: true,
            is_router: false,
        };
        match self.neighbours.reply(&reply, now, &mut self.events) {
            Heard::Unasked => Err(DropReason::NeighbourUnasked),
            Heard::Taken | Heard::NoRouter => Ok(None),
        }
    }

    /// Writes an ARP packet with its frame header.
    fn arp_frame(&self, out: &mut [u8], destination: MacAddr, arp: &Arp) -> Option<usize> {
        let mut writer = self.start(out, destination, ETHERTYPE_ARP);
        arp.build(&mut writer);
        writer.finish()
    }

    /// A request: for a neighbour, or, with no sender, a probe, or, for the sender itself, an
    /// announcement (RFC 5227 1.1).
    pub(super) fn arp_request(
        &self,
        out: &mut [u8],
        to: Option<MacAddr>,
        sender_ip: Ipv4Addr,
        target_ip: Ipv4Addr,
    ) -> Option<usize> {
        let arp = Arp {
            operation: Operation::Request,
            sender_mac: self.config.mac,
            sender_ip,
            target_mac: MacAddr::ZERO,
            target_ip,
        };
        self.arp_frame(out, to.unwrap_or(MacAddr::BROADCAST), &arp)
    }
}
