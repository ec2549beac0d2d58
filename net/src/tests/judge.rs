//! smoltcp as the judge: a stack of other people at the other end of the wire.

use std::prelude::v1::*;
use std::vec;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::wire::{End, pair};
use crate::phy::PortDevice;
use crate::{
    Claim, Config, DropReason, Event, Interface, MacAddr, NeighbourState, Ns, Resolution,
    link_local,
};
use smoltcp::iface::{Config as TheirConfig, Interface as Theirs, SocketHandle, SocketSet};
use smoltcp::socket::{icmp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{
    EthernetAddress, HardwareAddress, Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr,
    IpAddress, IpCidr,
};

const OURS: MacAddr = MacAddr([2, 0xE8, 0x10, 0, 0, 1]);
const THEIRS: MacAddr = MacAddr([2, 0, 0x5E, 0, 0, 2]);
const OUR_V4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const THEIR_V4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const OUR_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
const THEIR_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 2);
const IDENT: u16 = 0xE810;

/// Our interface and smoltcp's on one wire, in virtual time.
struct Link {
    ours: Interface,
    port: End,
    theirs: Theirs,
    device: PortDevice<End>,
    sockets: SocketSet<'static>,
    icmp: SocketHandle,
    now: Ns,
}

impl Link {
    fn new() -> Self {
        let (port, other) = pair(64);
        let mut device = PortDevice::new(other);
        let config = TheirConfig::new(HardwareAddress::Ethernet(EthernetAddress(THEIRS.0)));
        let mut theirs = Theirs::new(config, &mut device, Instant::ZERO);
        theirs.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(THEIR_V4.into(), 24)).unwrap();
            addresses.push(IpCidr::new(THEIR_V6.into(), 64)).unwrap();
        });
        let buffer =
            || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 8], vec![0; 8 * 1500]);
        let mut socket = icmp::Socket::new(buffer(), buffer());
        socket.bind(icmp::Endpoint::Ident(IDENT)).unwrap();
        let mut sockets = SocketSet::new(Vec::new());
        let icmp = sockets.add(socket);
        let mut ours = Interface::new(Config::new(OURS), Ns::ZERO);
        ours.add_ipv4(OUR_V4, 24, Claim::Announced, Ns::ZERO)
            .unwrap();
        ours.add_ipv6(OUR_V6, 64, Ns::ZERO).unwrap();
        let mut link = Self {
            ours,
            port,
            theirs,
            device,
            sockets,
            icmp,
            now: Ns::ZERO,
        };
        // Until the search for duplicates is over.
        link.run(Ns::from_secs(3));
        assert!(link.ours.addresses().all(|address| address.is_usable()));
        while link.ours.next_event().is_some() {}
        link
    }

    /// Runs both sides for a time, in steps of a millisecond.
    fn run(&mut self, time: Ns) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    fn step(&mut self) {
        self.ours.poll(self.now, &mut self.port);
        let now = Instant::from_micros((self.now.0 / 1000) as i64);
        self.theirs.poll(now, &mut self.device, &mut self.sockets);
        self.now = self.now + Ns::from_ms(1);
    }

    /// Pings of smoltcp; how many replies came back whole.
    fn their_pings(&mut self, ip: IpAddr, count: u16, length: usize) -> u16 {
        let mut replies = 0;
        let payload: Vec<u8> = (0..length).map(|n| n as u8).collect();
        let checksums = smoltcp::phy::ChecksumCapabilities::default();
        for seq in 0..count {
            let socket = self.sockets.get_mut::<icmp::Socket<'_>>(self.icmp);
            match ip {
                IpAddr::V4(_) => {
                    let request = Icmpv4Repr::EchoRequest {
                        ident: IDENT,
                        seq_no: seq,
                        data: &payload,
                    };
                    let room = socket.send(request.buffer_len(), ip.into()).unwrap();
                    request.emit(&mut Icmpv4Packet::new_unchecked(room), &checksums);
                }
                IpAddr::V6(_) => {
                    let request = Icmpv6Repr::EchoRequest {
                        ident: IDENT,
                        seq_no: seq,
                        data: &payload,
                    };
                    let room = socket.send(request.buffer_len(), ip.into()).unwrap();
                    request.emit(
                        &THEIR_V6,
                        &OUR_V6,
                        &mut Icmpv6Packet::new_unchecked(room),
                        &checksums,
                    );
                }
            }
            for _ in 0..2000 {
                self.step();
                let socket = self.sockets.get_mut::<icmp::Socket<'_>>(self.icmp);
                if let Ok((reply, from)) = socket.recv() {
                    assert_eq!(from, IpAddress::from(ip));
                    // Type, code and checksum; then identifier, number and payload.
                    assert_eq!(reply[4..6], IDENT.to_be_bytes());
                    assert_eq!(reply[6..8], seq.to_be_bytes());
                    assert_eq!(reply[8..], payload);
                    replies += 1;
                    break;
                }
            }
        }
        replies
    }

    /// Pings of ours; how many replies came back.
    fn our_pings(&mut self, ip: IpAddr, count: u16) -> u16 {
        let mut replies = 0;
        for seq in 0..count {
            self.ours.ping(ip, 7, seq, self.now).unwrap();
            for _ in 0..100 {
                self.step();
                match self.ours.next_event() {
                    Some(Event::EchoReply {
                        ip: from,
                        ident: 7,
                        seq: number,
                        length: 56,
                        round_trip,
                    }) => {
                        assert_eq!((from, number), (ip, seq));
                        assert!(round_trip < Ns::from_ms(10), "{round_trip:?}");
                        replies += 1;
                        break;
                    }
                    Some(Event::NeighbourKnown { mac, .. }) => assert_eq!(mac, THEIRS),
                    Some(event) => unreachable!("{event:?}"),
                    None => {}
                }
            }
        }
        replies
    }

    /// Frames that we have dropped as malformed.
    fn malformed(&self) -> u64 {
        let counters = self.ours.counters();
        let reasons = [
            DropReason::Truncated,
            DropReason::BadArp,
            DropReason::BadIpHeader,
            DropReason::BadChecksum,
            DropReason::BadMessage,
            DropReason::BadHopLimit,
            DropReason::BadSourceAddress,
        ];
        reasons.iter().map(|reason| counters.dropped(*reason)).sum()
    }
}

#[test]
fn smoltcp_resolves_and_pings_us() {
    let mut link = Link::new();
    for length in [0, 1, 56, 1000, 1400] {
        assert_eq!(link.their_pings(OUR_V4.into(), 3, length), 3, "{length}");
        assert_eq!(link.their_pings(OUR_V6.into(), 3, length), 3, "{length}");
    }
    assert_eq!(link.ours.counters().echo_replies, 30);
    assert_eq!(link.malformed(), 0, "{}", link.ours.counters());
}

#[test]
fn we_resolve_and_ping_smoltcp() {
    let mut link = Link::new();
    let lookup = |link: &mut Link, ip: IpAddr| link.ours.lookup(ip, link.now);
    for ip in [IpAddr::from(THEIR_V4), THEIR_V6.into()] {
        assert_eq!(lookup(&mut link, ip), Resolution::Pending);
        link.run(Ns::from_ms(5));
        assert_eq!(lookup(&mut link, ip), Resolution::Known(THEIRS));
        link.ours.next_event().unwrap();
        assert_eq!(link.our_pings(ip, 20), 20);
    }
    assert_eq!(link.malformed(), 0, "{}", link.ours.counters());
}

#[test]
fn a_watched_neighbour_is_confirmed_again_and_again() {
    let mut link = Link::new();
    for ip in [IpAddr::from(THEIR_V4), THEIR_V6.into()] {
        let now = link.now;
        let (_, hop) = link.ours.watch(ip, now);
        assert_eq!(hop.unwrap().via, ip);
    }
    link.run(Ns::from_secs(200));
    let neighbours: Vec<_> = link.ours.neighbours().collect();
    assert_eq!(neighbours.len(), 2);
    for neighbour in neighbours {
        assert_eq!(neighbour.mac, Some(THEIRS));
        assert_ne!(neighbour.state, NeighbourState::Stale);
    }
    let known = core::iter::from_fn(|| link.ours.next_event());
    let known = known.filter(|event| matches!(event, Event::NeighbourKnown { .. }));
    assert_eq!(known.count(), 2, "once each, and nothing else");
}

#[test]
fn our_ping_to_nobody_fails_as_unreachable() {
    let mut link = Link::new();
    let nobody = Ipv4Addr::new(10, 9, 0, 77).into();
    link.ours.ping(nobody, 1, 2, link.now).unwrap();
    link.run(Ns::from_secs(4));
    let events: Vec<_> = core::iter::from_fn(|| link.ours.next_event()).collect();
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[0], Event::NeighbourUnreachable(nobody));
    assert!(matches!(events[1], Event::EchoFailed { ip, .. } if ip == nobody));
}

#[test]
fn link_local_addresses_reach_each_other() {
    let mut link = Link::new();
    let theirs = link_local(THEIRS);
    link.theirs.update_ip_addrs(|addresses| {
        addresses[1] = IpCidr::new(theirs.into(), 64);
    });
    assert_eq!(link.our_pings(theirs.into(), 5), 5);
}

#[test]
fn what_is_not_answered_is_counted() {
    let mut link = Link::new();
    let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 4], vec![0; 4096]);
    let mut socket = udp::Socket::new(buffer(), buffer());
    socket.bind(5000).unwrap();
    for ip in [IpAddr::from(OUR_V4), OUR_V6.into()] {
        socket.send_slice(b"hello", (ip, 4791)).unwrap();
    }
    link.sockets.add(socket);
    link.run(Ns::from_secs(2));
    assert_eq!(link.ours.counters().dropped(DropReason::OtherProtocol), 2);
}

#[test]
fn a_port_without_room_loses_nothing() {
    let mut link = Link::new();
    // Room for one frame at a time, both ways.
    link.port.set_room(1);
    link.device.port().set_room(1);
    assert_eq!(link.their_pings(OUR_V4.into(), 10, 56), 10);
    assert_eq!(link.our_pings(THEIR_V6.into(), 10), 10);
}

/// A fifth of the frames is lost each way, for an hour: a watched neighbour is lost only for a
/// time, and each loss and return is an event.
#[test]
fn a_lossy_wire() {
    let mut link = Link::new();
    link.port.set_loss(3);
    link.device.port().set_loss(3);
    let ips = [IpAddr::from(THEIR_V4), THEIR_V6.into()];
    for ip in ips {
        let now = link.now;
        assert!(link.ours.watch(ip, now).1.is_some());
    }
    let mut known = [0; 2];
    let mut lost = [0; 2];
    for _ in 0..360 {
        link.run(Ns::from_secs(10));
        while let Some(event) = link.ours.next_event() {
            match event {
                Event::NeighbourKnown { ip, mac } => {
                    assert_eq!(mac, THEIRS);
                    known[usize::from(ip == ips[1])] += 1;
                }
                Event::NeighbourUnreachable(ip) => lost[usize::from(ip == ips[1])] += 1,
                event => unreachable!("{event:?}"),
            }
        }
    }
    for n in 0..2 {
        assert!(
            known[n] >= 1 && known[n] - lost[n] <= 1,
            "{known:?} {lost:?}"
        );
        assert!(lost[n] < 30, "{lost:?}: three probes are seldom lost all");
    }
    link.port.set_loss(0);
    link.device.port().set_loss(0);
    link.run(Ns::from_secs(60));
    for ip in ips {
        assert_eq!(link.ours.lookup(ip, link.now), Resolution::Known(THEIRS));
    }
}
