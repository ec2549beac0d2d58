//! What happens with time: addresses come into use and go, neighbours and routers are asked.

use core::net::{IpAddr, Ipv4Addr};

use super::Interface;
use crate::address::{
    ANNOUNCE_INTERVAL, ANNOUNCE_NUM, ANNOUNCE_WAIT, AddressState, DAD_TRANSMITS, Origin, PROBE_MAX,
    PROBE_MIN, PROBE_NUM,
};
use crate::event::Event;
use crate::mac::{link_local, multicast_mac};
use crate::neighbour::Places;
use crate::router::{MAX_RTR_SOLICITATION_DELAY, MAX_RTR_SOLICITATIONS, RTR_SOLICITATION_INTERVAL};
use crate::time::Ns;
use crate::wire::{ETHERTYPE_IPV6, nd};

impl<P: Places, const FRAME: usize> Interface<P, FRAME> {
    /// Lets go of what is over.
    pub(super) fn expire(&mut self, now: Ns) {
        while let Some(router) = self.routers.defaults.expired(now) {
            self.events.push(Event::RouterRemoved(router.into()));
        }
        while self.routers.on_link.expired(now).is_some() {}
        while let Some(address) = self.addresses.aged(now) {
            let ip = address.ip;
            if address.valid_until.is_some_and(|until| until <= now) {
                // It is there.
                let _ = self.remove_address(ip, now);
            } else {
                address.state = AddressState::Deprecated;
                self.events.push(Event::AddressDeprecated(ip));
            }
        }
        self.paths.expire(now);
        self.expire_pings(now);
    }

    /// The next frame about an own address.
    pub(super) fn address_frame(&mut self, now: Ns, out: &mut [u8]) -> Option<usize> {
        loop {
            let retrans = self.neighbours.times.retrans;
            let address = self.addresses.due(now)?;
            let ip = address.ip;
            match (address.state, ip) {
                (AddressState::Tentative, IpAddr::V4(v4)) if address.probes < PROBE_NUM => {
                    address.probes += 1;
                    let wait = match address.probes {
                        PROBE_NUM => ANNOUNCE_WAIT,
                        _ => self.random.between(PROBE_MIN, PROBE_MAX),
                    };
                    address.next = Some(now + wait);
                    return self.arp_request(out, None, Ipv4Addr::UNSPECIFIED, v4);
                }
                (AddressState::Tentative, IpAddr::V6(v6)) if address.probes < DAD_TRANSMITS => {
                    address.probes += 1;
                    address.next = Some(now + retrans);
                    return self.solicit_v6(out, None, None, v6);
                }
                (AddressState::Tentative, _) => {
                    address.state = AddressState::Preferred;
                    address.announcements = ANNOUNCE_NUM;
                    address.next = Some(now).filter(|_| ip.is_ipv4());
                    let is_first = address.origin == Origin::LinkLocal;
                    self.ours(ip);
                    if is_first {
                        self.solicit_routers(now);
                    }
                }
                (_, IpAddr::V4(v4)) if address.is_usable() && address.announcements > 0 => {
                    address.announcements -= 1;
                    let again = Some(now + ANNOUNCE_INTERVAL);
                    address.next = again.filter(|_| address.announcements > 0);
                    return self.arp_request(out, None, v4, v4);
                }
                _ => address.next = None,
            }
        }
    }

    /// The next solicitation of a neighbour.
    pub(super) fn neighbour_frame(&mut self, now: Ns, out: &mut [u8]) -> Option<usize> {
        while let Some(solicit) = self.neighbours.due(now, &mut self.events) {
            let source = self.source(solicit.ip, solicit.ip);
            let length = match (solicit.ip, source) {
                (IpAddr::V4(target), Some(IpAddr::V4(source))) => {
                    self.arp_request(out, solicit.to, source, target)
                }
                (IpAddr::V6(target), Some(IpAddr::V6(source))) => {
                    self.solicit_v6(out, solicit.to, Some(source), target)
                }
                // The own address is gone; the neighbour fails soon.
                _ => None,
            };
            if length.is_some() {
                return length;
            }
        }
        None
    }

    /// Begins to ask for routers.
    pub(super) fn solicit_routers(&mut self, now: Ns) {
        let delay = self.random.between(Ns::ZERO, MAX_RTR_SOLICITATION_DELAY);
        self.routers.solicits = 0;
        self.routers.next = Some(now + delay);
    }

    /// The next solicitation of routers (RFC 4861 6.3.7).
    pub(super) fn router_frame(&mut self, now: Ns, out: &mut [u8]) -> Option<usize> {
        self.routers.next.filter(|at| *at <= now)?;
        self.routers.next = None;
        let source = link_local(self.config.mac);
        if self.routers.solicits >= MAX_RTR_SOLICITATIONS || !self.addresses.owns(source.into()) {
            return None;
        }
        self.routers.solicits += 1;
        if self.routers.solicits < MAX_RTR_SOLICITATIONS {
            self.routers.next = Some(now + RTR_SOLICITATION_INTERVAL);
        }
        let to = multicast_mac(nd::ALL_ROUTERS.into())?;
        let mut writer = self.start(out, to, ETHERTYPE_IPV6);
        nd::build_router_solicitation(&mut writer, source, Some(self.config.mac));
        writer.finish()
    }
}
