//! Floods: what is in use stays, and nothing grows.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::prelude::v1::*;

use super::frames::{
    OUR_V4, OUR_V6, OURS, PEER, PEER_V4, PEER_V6, advertisement, arp, arp_reply, arp_request,
    router_advertisement, solicitation, too_big_v4,
};
use super::node::Node;
use crate::wire::arp::Operation;
use crate::wire::nd::Advertisement;
use crate::{DropReason, Event, MacAddr, NeighbourState, Ns, PATHS, Resolution};

const FRAMES: u32 = 100_000;
const ROOM: usize = 32;

/// A station and its addresses, different for each `n`.
fn sender(n: u32) -> (MacAddr, Ipv4Addr, Ipv6Addr) {
    let n = n.wrapping_mul(2_654_435_761);
    let [a, b, c, d] = n.to_be_bytes();
    let v6 = (u128::from(n) << 32) | OUR_V6.to_bits() & !0xFFFF_FFFF | 0x1234;
    let mac = MacAddr([2, 7, a, b, c, d]);
    (
        mac,
        Ipv4Addr::new(10, 9, 0, 3 + (d % 90)),
        Ipv6Addr::from_bits(v6),
    )
}

/// A node whose peer is known by both families and used.
fn with_peer(is_watched: bool) -> Node {
    let mut node = Node::ready();
    let now = node.now;
    for ip in [IpAddr::V4(PEER_V4), PEER_V6.into()] {
        match is_watched {
            true => node.interface.watch(ip, now).0,
            false => node.interface.lookup(ip, now),
        };
    }
    node.run(10);
    node.give(&arp_reply(PEER, PEER_V4));
    node.give(&advertisement(PEER, OUR_V6, &says(PEER_V6, PEER, true)));
    for ip in [IpAddr::V4(PEER_V4), PEER_V6.into()] {
        assert_eq!(node.interface.lookup(ip, node.now), Resolution::Known(PEER));
    }
    node.events();
    node
}

fn says(target: Ipv6Addr, mac: MacAddr, is_solicited: bool) -> Advertisement {
    Advertisement {
        target,
        target_mac: Some(mac),
        is_router: false,
        is_solicited,
        overrides: true,
    }
}

fn assert_peer_is_there(node: &mut Node) {
    for ip in [IpAddr::V4(PEER_V4), PEER_V6.into()] {
        assert_eq!(node.interface.lookup(ip, node.now), Resolution::Known(PEER));
    }
}

#[test]
fn requests_of_many_evict_nobody() {
    for is_watched in [false, true] {
        let mut node = with_peer(is_watched);
        for n in 0..FRAMES {
            let (mac, v4, v6) = sender(n);
            let reply = match n & 1 {
                0 => node.give(&arp_request(mac, v4, OUR_V4)),
                _ => node.give(&solicitation(mac, v6, OUR_V6, Some(mac))),
            };
            assert!(reply.is_some(), "each is answered");
        }
        assert_peer_is_there(&mut node);
        let learnt = node.interface.neighbours().count() - 2;
        assert_eq!(learnt, ROOM / 4);
        assert!(node.dropped(DropReason::NeighbourRoom) > u64::from(FRAMES / 2) - 100);
        assert_eq!(node.events(), [], "nobody cares for them");
        // They give way to whom we want to reach.
        let now = node.now;
        for n in 0..ROOM as u8 - 2 {
            let ip = IpAddr::from([10, 9, 0, 100 + n]);
            assert_eq!(node.interface.lookup(ip, now), Resolution::Pending, "{n}");
        }
        let more = IpAddr::from([10, 9, 0, 200]);
        assert_eq!(node.interface.lookup(more, now), Resolution::NoRoom);
        assert_peer_is_there(&mut node);
        // And those that do not answer give way in their turn.
        node.run(3500);
        assert_eq!(node.interface.lookup(more, node.now), Resolution::Pending);
    }
}

#[test]
fn learnt_entries_are_gone_after_a_minute() {
    let mut node = Node::ready();
    for n in 0..100 {
        let (mac, v4, _) = sender(n);
        node.give(&arp_request(mac, v4, OUR_V4));
    }
    assert_eq!(node.interface.neighbours().count(), ROOM / 4);
    node.run(60_001);
    assert_eq!(node.interface.neighbours().count(), 0);
    assert!(node.sent_arp().is_empty(), "nobody is asked");
}

#[test]
fn replies_that_nobody_asked_for_make_no_entries() {
    let mut node = with_peer(false);
    for n in 0..FRAMES {
        let (mac, v4, v6) = sender(n);
        let frame = match n % 3 {
            0 => arp_reply(mac, v4),
            // An announcement.
            1 => arp(Operation::Reply, (mac, v4), (MacAddr::BROADCAST, v4)),
            _ => advertisement(mac, OUR_V6, &says(v6, mac, n & 1 == 0)),
        };
        assert_eq!(node.give(&frame), None);
    }
    assert_eq!(node.interface.neighbours().count(), 2);
    assert_eq!(node.dropped(DropReason::NeighbourUnasked), FRAMES.into());
    assert_peer_is_there(&mut node);
}

#[test]
fn a_forged_station_does_not_change_an_entry_more_than_once_a_second() {
    let mut node = with_peer(true);
    let mut moves = 0;
    // For ten seconds, a thousand frames a second; the peer answers each solicitation.
    for n in 0..10_000u32 {
        let (mac, ..) = sender(n);
        node.give(&arp(
            Operation::Reply,
            (mac, PEER_V4),
            (MacAddr::BROADCAST, PEER_V4),
        ));
        node.run(1);
        if !node.sent_arp().is_empty() {
            node.give(&arp_reply(PEER, PEER_V4));
        }
        let events = node.events();
        moves += events
            .iter()
            .filter(|event| matches!(event, Event::NeighbourMoved { .. }))
            .count();
    }
    assert!(
        moves <= 22,
        "{moves}: one to the forger and one back, each second"
    );
    node.run(5000);
    assert_eq!(node.interface.neighbours().count(), 2);
}

#[test]
fn tables_that_routers_fill_have_an_end() {
    let mut node = with_peer(true);
    for n in 0..1000u16 {
        let prefix = Ipv6Addr::new(0x2001, 0xDB8, 8, n, 0, 0, 0, 0);
        let mut frame = router_advertisement(1800, None, &[(prefix, 64, 0xC0, 90, 80)]);
        // Another router each time.
        frame[36..38].copy_from_slice(&n.to_be_bytes());
        super::frames::put_checksums_right(&mut frame);
        node.give(&frame);
        let [a, b] = n.to_be_bytes();
        node.give(&too_big_v4(OUR_V4, Ipv4Addr::new(10, 7, a, b), 1400));
    }
    assert_eq!(node.interface.routers().count(), 4);
    assert_eq!(node.interface.addresses().count(), 3 + 6);
    assert_eq!(node.events().len(), 4 + PATHS);
    assert_eq!(node.interface.events_lost(), 0);
    assert!(node.dropped(DropReason::PathMtuIgnored) >= 1000 - PATHS as u64);
    assert_peer_is_there(&mut node);
}

#[test]
fn a_neighbour_that_is_used_outlives_those_that_are_not() {
    let mut node = with_peer(false);
    let answer = |node: &mut Node, n: u8| {
        let ip = Ipv4Addr::new(10, 9, 0, n);
        let asked = node.interface.lookup(ip.into(), node.now);
        node.give(&arp_reply(MacAddr([2, 1, 0, 0, 0, n]), ip));
        asked
    };
    for n in 10..40 {
        assert_eq!(answer(&mut node, n), Resolution::Pending);
    }
    assert_eq!(node.interface.neighbours().count(), ROOM);
    assert_eq!(answer(&mut node, 50), Resolution::NoRoom);
    node.now = node.now + Ns::from_secs(29);
    assert_peer_is_there(&mut node);
    node.now = node.now + Ns::from_secs(2);
    assert_eq!(answer(&mut node, 50), Resolution::Pending);
    let has = |node: &Node, n: u8| {
        let ip = IpAddr::from([10, 9, 0, n]);
        node.interface.neighbours().any(|entry| entry.ip == ip)
    };
    assert!(has(&node, 50));
    assert_peer_is_there(&mut node);
    let states = node.interface.neighbours().map(|entry| entry.state);
    assert!(
        states
            .filter(|state| *state == NeighbourState::Reachable)
            .count()
            > 20
    );
    assert_ne!(OURS, PEER);
}
