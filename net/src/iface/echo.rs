//! Echo requests of others, and our own.

use core::net::IpAddr;

use super::Interface;
use super::receive::Reply;
use crate::counters::DropReason;
use crate::event::{Event, PingFailure};
use crate::mac::MacAddr;
use crate::neighbour::{Places, Resolution};
use crate::ping::Ping;
use crate::time::Ns;
use crate::wire::icmpv4::{ECHO_HEADER, build_echo};
use crate::wire::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet, ICMPV4, ICMPV6, IPV4_HEADER, IPV6_HEADER, Ipv4, Ipv6,
    icmpv6,
};

impl<P: Places, const FRAME: usize> Interface<P, FRAME> {
    /// Whether one more echo request may be answered.
    fn admit(&mut self, now: Ns) -> Result<(), DropReason> {
        match self.echo.take(now) {
            true => Ok(()),
            false => Err(DropReason::RateLimited),
        }
    }

    fn answered(&mut self, reply: Option<usize>) -> Reply {
        if reply.is_none() {
            return Err(DropReason::ReplyTooLong);
        }
        self.counters.echo_replies = self.counters.echo_replies.saturating_add(1);
        Ok(reply)
    }

    /// A request to our own address; it is answered to the station that it came from.
    pub(super) fn echo_v4(
        &mut self,
        now: Ns,
        ethernet: &Ethernet,
        header: &Ipv4,
        (ident, seq): (u16, u16),
        payload: &[u8],
        out: &mut [u8],
    ) -> Reply {
        self.admit(now)?;
        let answer = Ipv4 {
            source: header.destination,
            destination: header.source,
            protocol: ICMPV4,
            ttl: self.hop_limit(header.source.into()),
            router_alert: false,
        };
        let mut writer = self.start(out, ethernet.source, ETHERTYPE_IPV4);
        answer.build(&mut writer, ECHO_HEADER.saturating_add(payload.len()));
        build_echo(&mut writer, true, ident, seq, payload);
        let reply = writer.finish();
        self.answered(reply)
    }

    /// A request to our own address or to a group that we are in; the reply's source is an own
    /// unicast address (RFC 4443 4.2).
    pub(super) fn echo_v6(
        &mut self,
        now: Ns,
        ethernet: &Ethernet,
        header: &Ipv6,
        ids: (u16, u16),
        payload: &[u8],
        out: &mut [u8],
    ) -> Reply {
        if !Self::is_answerable(header.source) {
            return Err(DropReason::BadSourceAddress);
        }
        let (to, from) = (header.source, header.destination);
        let source = match from.is_multicast() {
            false => from,
            true => match self.source(to.into(), to.into()) {
                Some(IpAddr::V6(source)) => source,
                _ => return Err(DropReason::OtherAddress),
            },
        };
        self.admit(now)?;
        let answer = Ipv6 {
            source,
            destination: to,
            protocol: ICMPV6,
            hop_limit: self.hop_limit(to.into()),
            router_alert: false,
        };
        let mut writer = self.start(out, ethernet.source, ETHERTYPE_IPV6);
        icmpv6::build_echo(&mut writer, &answer, true, ids, payload);
        let reply = writer.finish();
        self.answered(reply)
    }

    /// The reply to a request of ours.
    pub(super) fn echo_reply(
        &mut self,
        ip: IpAddr,
        (ident, seq): (u16, u16),
        payload: &[u8],
        now: Ns,
    ) -> Reply {
        let sent = self.pings.reply(ip, ident, seq);
        let sent = sent.ok_or(DropReason::EchoUnasked)?;
        self.events.push(Event::EchoReply {
            ip,
            ident,
            seq,
            length: payload.len().min(0xFFFF) as u16,
            round_trip: now - sent,
        });
        Ok(None)
    }

    fn ping_failed(&mut self, ping: &Ping, why: PingFailure) {
        self.events.push(Event::EchoFailed {
            ip: ping.ip,
            ident: ping.ident,
            seq: ping.seq,
            why,
        });
    }

    /// Gives requests up that nobody has answered.
    pub(super) fn expire_pings(&mut self, now: Ns) {
        while let Some(ping) = self.pings.expired(now) {
            self.ping_failed(&ping, PingFailure::TimedOut);
        }
    }

    /// The next request whose neighbour is known.
    pub(super) fn ping_frame(&mut self, now: Ns, out: &mut [u8]) -> Option<usize> {
        let mut place = 0;
        while let Some(asked) = self.pings.get(place) {
            if asked.sent.is_some() {
                place += 1;
                continue;
            }
            let ping = asked.ping;
            let failure = match self.lookup(ping.ip, now) {
                Resolution::Pending | Resolution::NoRoom => {
                    place += 1;
                    continue;
                }
                Resolution::Unreachable => PingFailure::Unreachable,
                Resolution::NoRoute => PingFailure::NoRoute,
                Resolution::Known(mac) => match self.echo_request(&ping, mac, out) {
                    Some(length) => {
                        self.pings.sent(place, now);
                        return Some(length);
                    }
                    None => PingFailure::TooLong,
                },
            };
            self.pings.remove(place);
            self.ping_failed(&ping, failure);
        }
        None
    }

    fn echo_request(&self, ping: &Ping, mac: MacAddr, out: &mut [u8]) -> Option<usize> {
        let mut payload = [0; FRAME];
        let length = usize::from(ping.length);
        for (byte, value) in payload.iter_mut().zip((0..=u8::MAX).cycle()) {
            *byte = value;
        }
        let payload = payload.get(..length)?;
        let header = match ping.ip {
            IpAddr::V4(_) => IPV4_HEADER,
            IpAddr::V6(_) => IPV6_HEADER,
        };
        let packet = header + ECHO_HEADER + length;
        if packet > usize::from(self.path_mtu(ping.ip)) {
            return None;
        }
        match (self.next_hop(ping.ip)?.source, ping.ip) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = Ipv4 {
                    source,
                    destination,
                    protocol: ICMPV4,
                    ttl: self.hop_limit(ping.ip),
                    router_alert: false,
                };
                let mut writer = self.start(out, mac, ETHERTYPE_IPV4);
                header.build(&mut writer, ECHO_HEADER + length);
                build_echo(&mut writer, false, ping.ident, ping.seq, payload);
                writer.finish()
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = Ipv6 {
                    source,
                    destination,
                    protocol: ICMPV6,
                    hop_limit: self.hop_limit(ping.ip),
                    router_alert: false,
                };
                let mut writer = self.start(out, mac, ETHERTYPE_IPV6);
                icmpv6::build_echo(&mut writer, &header, false, (ping.ident, ping.seq), payload);
                writer.finish()
            }
            _ => None,
        }
    }
}
