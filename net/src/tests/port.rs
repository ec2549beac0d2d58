//! The interface on its port, its routes, and its own pings.

use core::net::{IpAddr, Ipv6Addr};
use std::prelude::v1::*;
use std::vec;

use smoltcp::iface::{Config as StackConfig, Interface as Stack, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};

use super::frames::{OUR_V4, OURS, PEER, PEER_V4, arp_reply, echo_v4};
use super::node::Node;
use super::wire::pair;
use crate::phy::PortDevice;
use crate::{
    Claim, Config, DropReason, Event, FRAMES_PER_POLL, Full, Interface, Ns, Ping, PingError,
    PingFailure, Place, Port, Prefix, Resolution, RouteError,
};

const FAR: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1));

#[test]
fn one_poll_does_so_much_and_no_more() {
    let mut node = Node::ready();
    let (mut port, mut other) = pair(1000);
    for seq in 0..100 {
        other
            .transmit(&echo_v4(PEER, PEER_V4, OUR_V4, seq))
            .unwrap();
    }
    let mut frame = [0; 1522];
    let mut sizes = vec![];
    loop {
        let more = node.interface.poll(node.now, &mut port);
        let mut count = 0;
        while other.receive(&mut frame).is_some() {
            count += 1;
        }
        sizes.push(count);
        if !more {
            break;
        }
    }
    // Fifty at once are answered.
    assert_eq!(sizes, [FRAMES_PER_POLL, 50 - FRAMES_PER_POLL, 0, 0]);
    assert_eq!(node.counters().received, 100);
    assert_eq!(node.counters().sent, 50);
}

#[test]
fn a_frame_without_room_is_kept_and_one_that_is_too_long_is_counted() {
    let mut node = Node::ready();
    let (mut port, mut other) = pair(1);
    other.transmit(&echo_v4(PEER, PEER_V4, OUR_V4, 1)).unwrap();
    assert!(!node.interface.poll(node.now, &mut port));
    other.transmit(&echo_v4(PEER, PEER_V4, OUR_V4, 2)).unwrap();
    // The first reply is still there.
    assert!(!node.interface.poll(node.now, &mut port));
    assert_eq!(node.counters().port_full, 1);
    let retry = node.interface.next_deadline().unwrap();
    assert_eq!(retry, node.now + Ns::from_ms(1));
    let mut frame = [0; 1522];
    for seq in [1, 2] {
        assert!(other.receive(&mut frame).is_some());
        assert_eq!(frame[41], seq);
        node.interface.poll(node.now, &mut port);
    }
    other.transmit(&[0; 1523]).unwrap();
    node.interface.poll(node.now, &mut port);
    assert_eq!(node.dropped(DropReason::Oversize), 1);
}

/// A port that takes no frame until it is told to: its link is down, or its queue hangs.
struct Stuck {
    incoming: Vec<Vec<u8>>,
    received: usize,
    takes: bool,
    sent: Vec<Vec<u8>>,
}

impl Port for Stuck {
    fn receive(&mut self, into: &mut [u8]) -> Option<usize> {
        let frame = self.incoming.pop()?;
        into[..frame.len()].copy_from_slice(&frame);
        self.received += 1;
        Some(frame.len())
    }

    fn transmit(&mut self, frame: &[u8]) -> Result<(), Full> {
        if !self.takes {
            return Err(Full);
        }
        self.sent.push(frame.to_vec());
        Ok(())
    }
}

#[test]
fn a_port_that_takes_no_frame_stops_nothing_else() {
    let mut interface: Interface = Interface::new(Config::new(OURS), Ns::ZERO);
    let claim = Claim::Announced;
    interface.add_ipv4(OUR_V4, 24, claim, Ns::ZERO).unwrap();
    let mut port = Stuck {
        incoming: vec![],
        received: 0,
        takes: false,
        sent: vec![],
    };
    interface.poll(Ns::ZERO, &mut port);
    interface.ping(PEER_V4.into(), 1, 1, Ns::ZERO).unwrap();
    let (resolution, hop) = interface.watch(PEER_V4.into(), Ns::ZERO);
    assert_eq!(resolution, Resolution::Pending);
    port.incoming = vec![echo_v4(PEER, PEER_V4, OUR_V4, 1); 10];
    let (mut now, mut events) = (Ns::ZERO, vec![]);
    while now < Ns::from_secs(60) {
        let due = interface.next_deadline().unwrap();
        assert!(due > now, "who sleeps until then sleeps");
        now = now + Ns::from_ms(5);
        interface.poll(now, &mut port);
        events.extend(core::iter::from_fn(|| interface.next_event()));
    }
    assert_eq!(port.received, 10);
    let failed = Event::EchoFailed {
        ip: PEER_V4.into(),
        ident: 1,
        seq: 1,
        why: PingFailure::TimedOut,
    };
    assert!(events.contains(&failed), "{events:?}");
    let unreachable = Event::NeighbourUnreachable(PEER_V4.into());
    assert!(events.contains(&unreachable), "{events:?}");
    // With room again: the frame that was kept, and what had waited for it.
    port.takes = true;
    interface.unwatch(hop.unwrap());
    for _ in 0..2000 {
        now = now + Ns::from_ms(5);
        interface.poll(now, &mut port);
    }
    let is_announcement =
        |frame: &&Vec<u8>| frame[12..14] == [8, 6] && frame[28..32] == frame[38..42];
    assert_eq!(port.sent.iter().filter(is_announcement).count(), 2);
    let added: Vec<_> = core::iter::from_fn(|| interface.next_event()).collect();
    let link_local = crate::link_local(OURS).into();
    assert!(
        added.contains(&Event::AddressAdded(link_local)),
        "probed for, then ours: {added:?}"
    );
}

#[test]
fn a_large_frame_needs_a_large_interface() {
    let mut config = Config::new(OURS);
    config.mtu = 9000;
    config.ipv6 = false;
    let mut interface: Interface<[Place; 8], 9022> = Interface::new(config, Ns::ZERO);
    let claim = Claim::Unannounced;
    interface.add_ipv4(OUR_V4, 24, claim, Ns::ZERO).unwrap();
    let ping = Ping {
        ip: PEER_V4.into(),
        ident: 1,
        seq: 1,
        length: 8972,
    };
    interface.ping_with(ping, Ns::ZERO).unwrap();
    let mut out = [0; 9022];
    interface.next_frame(Ns::ZERO, &mut out).unwrap();
    interface.handle(Ns::ZERO, &arp_reply(PEER, PEER_V4), &mut out);
    let length = interface.next_frame(Ns::ZERO, &mut out);
    assert_eq!(length, Some(9014));
    // A reply that does not fit its buffer is none.
    let request = echo_v4(PEER, PEER_V4, OUR_V4, 1);
    assert_eq!(interface.handle(Ns::ZERO, &request, &mut [0; 60]), None);
    assert_eq!(interface.counters().dropped(DropReason::ReplyTooLong), 1);
}

#[test]
fn pings_that_have_no_reply() {
    let mut node = Node::ready();
    let now = node.now;
    let ping = |node: &mut Node, ip: IpAddr, length| {
        let (ident, seq) = (9, 1);
        node.interface.ping_with(
            Ping {
                ip,
                ident,
                seq,
                length,
            },
            now,
        )
    };
    let failed = |ip, why| Event::EchoFailed {
        ip,
        ident: 9,
        seq: 1,
        why,
    };
    ping(&mut node, FAR, 56).unwrap();
    node.run(0);
    assert_eq!(node.events(), [failed(FAR, PingFailure::NoRoute)]);
    let peer = IpAddr::V4(PEER_V4);
    node.interface.lookup(peer, now);
    node.run(0);
    node.give(&arp_reply(PEER, PEER_V4));
    ping(&mut node, peer, 1473).unwrap();
    ping(&mut node, peer, 1472).unwrap();
    node.run(9999);
    let known = Event::NeighbourKnown {
        ip: peer,
        mac: PEER,
    };
    assert_eq!(node.events(), [known, failed(peer, PingFailure::TooLong)]);
    node.run(2);
    assert_eq!(node.events(), [failed(peer, PingFailure::TimedOut)]);
    for ip in [[224, 0, 0, 1], [255; 4], [0; 4], [10, 9, 0, 255]] {
        assert_eq!(ping(&mut node, ip.into(), 0), Err(PingError::NotUnicast));
    }
    ping(&mut node, OUR_V4.into(), 0).unwrap();
    assert!(matches!(node.events()[..], [Event::EchoReply { .. }]));
    let asked = (0..100).take_while(|_| ping(&mut node, peer, 0).is_ok());
    assert_eq!(asked.count(), crate::PINGS);
}

#[test]
fn the_longest_prefix_leads() {
    let mut node = Node::ready();
    let prefix = |ip: [u8; 4], length| Prefix::new(ip.into(), length).unwrap();
    let gateway = |n: u8| IpAddr::from([10, 9, 0, n]);
    let interface = &mut node.interface;
    interface.set_route(prefix([0; 4], 0), gateway(10)).unwrap();
    interface
        .set_route(prefix([192, 0, 2, 0], 24), gateway(11))
        .unwrap();
    interface
        .set_route(prefix([10, 9, 0, 128], 25), gateway(12))
        .unwrap();
    let via = |interface: &Interface, ip: [u8; 4]| interface.next_hop(ip.into()).unwrap().via;
    assert_eq!(via(interface, [8, 8, 8, 8]), gateway(10));
    assert_eq!(via(interface, [192, 0, 2, 9]), gateway(11));
    assert_eq!(via(interface, [10, 9, 0, 9]), gateway(9), "a neighbour");
    assert_eq!(via(interface, [10, 9, 0, 200]), gateway(12));
    interface
        .set_route(prefix([192, 0, 2, 0], 24), gateway(13))
        .unwrap();
    assert_eq!(via(interface, [192, 0, 2, 9]), gateway(13));
    interface.remove_route(prefix([192, 0, 2, 0], 24)).unwrap();
    assert_eq!(via(interface, [192, 0, 2, 9]), gateway(10));
    let gone = interface.remove_route(prefix([192, 0, 2, 0], 24));
    assert_eq!(gone, Err(RouteError::NoSuch));
    let v6 = Prefix::new(Ipv6Addr::UNSPECIFIED.into(), 0).unwrap();
    assert_eq!(
        interface.set_route(v6, gateway(1)),
        Err(RouteError::Gateway)
    );
    // The gateway is the neighbour of everything behind it.
    let (resolution, hop) = interface.watch(FAR, node.now);
    assert_eq!(resolution, Resolution::Pending);
    let hop = hop.unwrap();
    assert_eq!((hop.via, hop.source), (gateway(10), OUR_V4.into()));
    interface.unwatch(hop);
    assert_eq!(interface.neighbours().count(), 0, "nobody asks any more");
}

#[test]
fn a_link_that_comes_up_is_announced_to() {
    let mut node = Node::ready();
    let now = node.now;
    node.interface.link_up(now);
    node.run(10_000);
    let arp = node.sent_arp();
    assert_eq!(arp.len(), 2);
    assert!(arp.iter().all(|(_, arp)| arp.sender_ip == arp.target_ip));
    assert_eq!(node.sent_icmpv6(133).len(), 3);
}

/// Two stacks of smoltcp, each on a port with room for one frame: TCP passes every byte.
#[test]
fn a_whole_stack_runs_on_a_port() {
    let (one, other) = pair(1);
    let mut devices = [PortDevice::<_, 1514>::new(one), PortDevice::new(other)];
    let mut stacks = vec![];
    for (n, device) in (1u8..).zip(&mut devices) {
        let mac = EthernetAddress([2, 0, 0, 0, 0, n]);
        let config = StackConfig::new(HardwareAddress::Ethernet(mac));
        let mut stack = Stack::new(config, device, Instant::ZERO);
        let ip = core::net::Ipv4Addr::new(10, 0, 0, n);
        stack.update_ip_addrs(|own| own.push(IpCidr::new(ip.into(), 24)).unwrap());
        stacks.push(stack);
    }
    let mut sets = [SocketSet::new(vec![]), SocketSet::new(vec![])];
    let buffer = || tcp::SocketBuffer::new(vec![0; 8192]);
    let handles = [0, 1].map(|n| sets[n].add(tcp::Socket::new(buffer(), buffer())));
    let server = sets[1].get_mut::<tcp::Socket<'_>>(handles[1]);
    server.listen(80).unwrap();
    let client = sets[0].get_mut::<tcp::Socket<'_>>(handles[0]);
    let to = (IpAddr::from([10, 0, 0, 2]), 80);
    client.connect(stacks[0].context(), to, 4000).unwrap();
    let data: Vec<u8> = (0..100_000u32).map(|n| (n >> 3) as u8).collect();
    let (mut sent, mut received) = (0, Vec::<u8>::new());
    for ms in 0..20_000 {
        for n in 0..2 {
            stacks[n].poll(Instant::from_millis(ms), &mut devices[n], &mut sets[n]);
        }
        let client = sets[0].get_mut::<tcp::Socket<'_>>(handles[0]);
        if client.can_send() {
            sent += client.send_slice(&data[sent..]).unwrap();
        }
        let server = sets[1].get_mut::<tcp::Socket<'_>>(handles[1]);
        let mut chunk = [0; 2048];
        while let Ok(length @ 1..) = server.recv_slice(&mut chunk) {
            received.extend(&chunk[..length]);
        }
        if received.len() == data.len() {
            break;
        }
    }
    assert!(
        received == data,
        "{} of {} bytes",
        received.len(),
        data.len()
    );
    let mut frame = [0; 2048];
    assert!(
        devices[0]
            .port()
            .receive(&mut frame)
            .is_none_or(|length| length <= 1514)
    );
    assert_eq!(devices.map(|device| device.oversize()), [0, 0]);
}
