//! Router advertisements: hop limit, default routers, prefixes, addresses made of them
//! (RFC 4861 6.3.4, RFC 4862 5.5.3).

use core::net::{IpAddr, Ipv6Addr};

use super::Interface;
use super::receive::Reply;
use crate::address::{AUTOCONFIGURED, Address, AddressState, Origin, TWO_HOURS};
use crate::counters::DropReason;
use crate::event::Event;
use crate::mac::with_interface_id;
use crate::neighbour::Places;
use crate::path_mtu::MIN_IPV6;
use crate::prefix::Prefix;
use crate::router::{Change, end};
use crate::time::Ns;
use crate::wire::nd::{AdvertisedPrefix, RouterAdvertisement};

/// Reachable times that are taken from a router: RFC 4861 6.2.1 allows an hour at most, and less
/// than a second would be a flood of solicitations.
const REACHABLE_RANGE: (Ns, Ns) = (Ns::from_secs(1), Ns::from_secs(3600));
/// Times between solicitations that are taken from a router, for the same reason.
const RETRANS_RANGE: (Ns, Ns) = (Ns::from_ms(100), Ns::from_secs(10));

impl<P: Places, const FRAME: usize> Interface<P, FRAME> {
    pub(super) fn router_advertisement(
        &mut self,
        now: Ns,
        router: Ipv6Addr,
        advertisement: &RouterAdvertisement<'_>,
    ) -> Reply {
        if advertisement.lifetime > 0 {
            // Routers are not asked any longer (RFC 4861 6.3.7).
            self.routers.next = None;
        }
        if advertisement.hop_limit > 0 {
            self.routers.hop_limit = advertisement.hop_limit;
        }
        if !self.config.autoconfigure {
            return Ok(None);
        }
        let until = end(advertisement.lifetime.into(), now);
        self.set_router(router, until, now);
        let time = |ms: u32, (least, most): (Ns, Ns)| Ns::from_ms(ms.into()).clamp(least, most);
        if advertisement.reachable_time > 0 {
            let time = time(advertisement.reachable_time, REACHABLE_RANGE);
            self.neighbours.times.reachable = time;
        }
        if advertisement.retrans_timer > 0 {
            let time = time(advertisement.retrans_timer, RETRANS_RANGE);
            self.neighbours.times.retrans = time;
        }
        if let Some(mtu) = advertisement.mtu
            && (MIN_IPV6..=self.config.mtu.into()).contains(&mtu)
        {
            self.routers.mtu = Some(mtu as u16);
        }
        // A router that is known already is kept up to date; nothing is learnt.
        if let Some(mac) = advertisement.source_mac
            && self.neighbours.state(router.into()).is_some()
        {
            self.neighbours
                .learn(router.into(), mac, now, &mut self.events);
        }
        for prefix in advertisement.prefixes() {
            self.prefix(&prefix, now);
        }
        Ok(None)
    }

    /// Sets until when a router is a default router.
    pub(super) fn set_router(&mut self, router: Ipv6Addr, until: Option<Ns>, now: Ns) {
        let ip = IpAddr::V6(router);
        match self.routers.defaults.set(router, until, now) {
            Change::None => {}
            Change::Added => self.events.push(Event::RouterAdded(ip)),
            Change::Removed => self.events.push(Event::RouterRemoved(ip)),
            Change::Refused => self.counters.drop(DropReason::RouterRoom),
        }
    }

    fn prefix(&mut self, prefix: &AdvertisedPrefix, now: Ns) {
        let ip = prefix.prefix;
        if ip.is_unicast_link_local() || ip.is_multicast() {
            return;
        }
        let Some(network) = Prefix::new(ip.into(), prefix.length) else {
            return;
        };
        if prefix.is_on_link {
            let change = self
                .routers
                .on_link
                .set(network, end(prefix.valid, now), now);
            if change == Change::Refused {
                self.counters.drop(DropReason::RouterRoom);
            }
        }
        // 64 bits are the interface's (RFC 4291 2.5.1).
        if prefix.is_autonomous && prefix.length == 64 && prefix.preferred <= prefix.valid {
            self.autoconfigure(prefix, now);
        }
    }

    fn autoconfigure(&mut self, prefix: &AdvertisedPrefix, now: Ns) {
        let [upper @ .., _, _, _, _, _, _, _, _] = prefix.prefix.octets();
        let ip = IpAddr::V6(with_interface_id(upper, self.config.mac));
        if let Some(address) = self.addresses.get_mut(ip) {
            if address.origin == Origin::Advertised {
                renew(address, prefix, now);
            }
            return;
        }
        let is_duplicate =
            |own: &Address| own.origin == Origin::LinkLocal && own.state == AddressState::Duplicate;
        let duplicate = self.addresses.iter().any(is_duplicate);
        // A station with the same MAC address would have the same addresses (RFC 4862 5.4.5).
        let Some(single) = Prefix::new(ip, 128).filter(|_| prefix.valid > 0 && !duplicate) else {
            return;
        };
        let made = self.addresses.iter();
        let made = made.filter(|own| own.origin == Origin::Advertised).count();
        let mut address = Address::new(ip, single, Origin::Advertised);
        address.preferred_until = end(prefix.preferred, now);
        address.valid_until = end(prefix.valid, now);
        if made >= AUTOCONFIGURED || self.add_v6(address, now).is_err() {
            self.counters.drop(DropReason::RouterRoom);
        }
    }
}

/// New lifetimes of an address (RFC 4862 5.5.3 e): a short valid lifetime, which anybody could
/// advertise, is believed only as far as two hours.
fn renew(address: &mut Address, prefix: &AdvertisedPrefix, now: Ns) {
    let remaining = address.valid_until.map(|until| until - now);
    let valid = Ns::from_secs(prefix.valid.into());
    let is_longer = remaining.is_some_and(|remaining| valid > remaining);
    if prefix.valid == u32::MAX || valid > TWO_HOURS || is_longer {
        address.valid_until = end(prefix.valid, now);
    } else if remaining.is_none_or(|remaining| remaining > TWO_HOURS) {
        address.valid_until = Some(now + TWO_HOURS);
    }
    address.preferred_until = end(prefix.preferred, now);
    if address.state == AddressState::Deprecated && prefix.preferred > 0 {
        address.state = AddressState::Preferred;
    }
}
