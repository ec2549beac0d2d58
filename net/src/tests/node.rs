//! An interface in virtual time, and what it has sent.

use std::prelude::v1::*;
use std::vec;

use super::frames::{OUR_V4, OUR_V6, OURS};
use crate::wire::arp::Arp;
use crate::wire::{ETHERTYPE_ARP, ETHERTYPE_IPV6, Ethernet, Ipv6};
use crate::{Claim, Config, Counters, DropReason, Event, Interface, Ns};

pub(crate) struct Node {
    pub(crate) interface: Interface,
    pub(crate) now: Ns,
    /// What was sent of its own accord, and when.
    pub(crate) sent: Vec<(Ns, Vec<u8>)>,
}

impl Node {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            interface: Interface::new(config, Ns::ZERO),
            now: Ns::ZERO,
            sent: Vec::new(),
        }
    }

    /// With both addresses, ten seconds after its start.
    pub(crate) fn ready() -> Self {
        let mut node = Self::new(Config::new(OURS));
        let interface = &mut node.interface;
        interface
            .add_ipv4(OUR_V4, 24, Claim::Unannounced, Ns::ZERO)
            .unwrap();
        interface.add_ipv6(OUR_V6, 64, Ns::ZERO).unwrap();
        node.run(20_000);
        node.sent.clear();
        node.events();
        assert!(node.interface.addresses().all(|own| own.is_usable()));
        node
    }

    /// Lets so many milliseconds pass.
    pub(crate) fn run(&mut self, ms: u64) {
        let end = self.now + Ns::from_ms(ms);
        loop {
            self.flush();
            match self.interface.next_deadline() {
                Some(at) if at <= end => {
                    assert!(at > self.now, "time stands still at {:?}", self.now);
                    self.now = at;
                }
                _ => break,
            }
        }
        self.now = end;
        self.flush();
    }

    fn flush(&mut self) {
        let mut out = [0; 1522];
        let mut frames = 0;
        while let Some(length) = self.interface.next_frame(self.now, &mut out) {
            self.sent.push((self.now, out[..length].to_vec()));
            frames += 1;
            assert!(frames < 1000, "frames without end");
        }
    }

    /// A frame comes in; the reply.
    pub(crate) fn give(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let mut out = [0; 1522];
        let length = self.interface.handle(self.now, frame, &mut out)?;
        Some(out[..length].to_vec())
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.interface.next_event()).collect()
    }

    pub(crate) fn counters(&self) -> &Counters {
        self.interface.counters()
    }

    pub(crate) fn dropped(&self, reason: DropReason) -> u64 {
        self.counters().dropped(reason)
    }

    /// ARP packets that were sent, taken out.
    pub(crate) fn sent_arp(&mut self) -> Vec<(Ns, Arp)> {
        let mut found = vec![];
        self.sent.retain(|(at, frame)| {
            let (ethernet, payload) = Ethernet::parse(frame).unwrap();
            let is_arp = ethernet.ethertype == ETHERTYPE_ARP;
            if is_arp {
                found.push((*at, Arp::parse(payload).unwrap()));
            }
            !is_arp
        });
        found
    }

    /// ICMPv6 messages of a type that were sent, taken out.
    pub(crate) fn sent_icmpv6(&mut self, kind: u8) -> Vec<(Ns, Ipv6, Vec<u8>)> {
        let mut found = vec![];
        self.sent.retain(|(at, frame)| {
            let (ethernet, payload) = Ethernet::parse(frame).unwrap();
            if ethernet.ethertype != ETHERTYPE_IPV6 {
                return true;
            }
            let (header, message) = Ipv6::parse(payload).unwrap();
            let is_it = message[0] == kind;
            if is_it {
                found.push((*at, header, message.to_vec()));
            }
            !is_it
        });
        found
    }
}
