//! Echo, path MTU, VLANs, and frames that are not ours.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::prelude::v1::*;

use super::frames::{
    OUR_V4, OUR_V6, OURS, PEER, PEER_V4, PEER_V6, arp_request, echo_v4, echo_v6, icmp6, ipv4, ipv6,
    solicitation, too_big_v4, too_big_v6,
};
use super::node::Node;
use crate::wire::nd::ALL_NODES;
use crate::wire::{Ethernet, Ipv6, Vlan};
use crate::{Claim, Config, DropReason, Event, MacAddr, Ns};

#[test]
fn echo_is_answered_up_to_a_rate() {
    let mut node = Node::ready();
    let mut replies = 0;
    // A request each 10 µs for a second.
    for n in 0..100_000u64 {
        node.now = node.now + Ns(10_000);
        let request = match n & 1 {
            0 => echo_v4(PEER, PEER_V4, OUR_V4, n as u16),
            _ => echo_v6(PEER, PEER_V6, OUR_V6, n as u16),
        };
        replies += u64::from(node.give(&request).is_some());
    }
    assert!((1000..=1050).contains(&replies), "{replies}");
    assert_eq!(node.counters().echo_replies, replies);
    assert_eq!(node.dropped(DropReason::RateLimited), 100_000 - replies);
}

#[test]
fn groups_are_answered_as_the_rfcs_say() {
    let mut node = Node::ready();
    for to in [[10, 9, 0, 255], [255; 4], [224, 0, 0, 1]] {
        assert_eq!(node.give(&echo_v4(PEER, PEER_V4, to.into(), 1)), None);
    }
    assert_eq!(node.dropped(DropReason::EchoToGroup), 3);
    let reply = node.give(&echo_v6(PEER, PEER_V6, ALL_NODES, 1)).unwrap();
    let (ethernet, packet) = Ethernet::parse(&reply).unwrap();
    assert_eq!(ethernet.destination, PEER);
    assert_eq!(Ipv6::parse(packet).unwrap().0.source, OUR_V6);
    // Sources that are nobody's, and our own.
    for from in [
        [0; 4],
        [224, 0, 0, 1],
        [255; 4],
        [10, 9, 0, 255],
        [127, 0, 0, 1],
        OUR_V4.octets(),
    ] {
        assert_eq!(
            node.give(&echo_v4(PEER, from.into(), OUR_V4, 1)),
            None,
            "{from:?}"
        );
    }
    for from in [
        Ipv6Addr::UNSPECIFIED,
        Ipv6Addr::LOCALHOST,
        ALL_NODES,
        OUR_V6,
    ] {
        assert_eq!(node.give(&echo_v6(PEER, from, OUR_V6, 1)), None, "{from}");
    }
    assert_eq!(node.dropped(DropReason::BadSourceAddress), 10);
}

#[test]
fn a_unicast_packet_in_a_broadcast_frame_is_not_ours() {
    let mut node = Node::ready();
    let mut request = echo_v4(PEER, PEER_V4, OUR_V4, 1);
    request[..6].fill(0xFF);
    assert_eq!(node.give(&request), None);
    assert_eq!(node.dropped(DropReason::OtherStation), 1);
}

#[test]
fn frames_of_other_vlans_are_ignored_and_ours_are_tagged() {
    let tagged = |id: u16, frame: &[u8]| {
        let tag = id.to_be_bytes();
        [&frame[..12], &[0x81, 0], &tag, &frame[12..]].concat()
    };
    let request = echo_v4(PEER, PEER_V4, OUR_V4, 1);
    let mut plain = Node::ready();
    assert!(plain.give(&request).is_some());
    assert!(plain.give(&tagged(0, &request)).is_some(), "priority only");
    assert!(plain.give(&tagged(7, &request)).is_none());
    let mut config = Config::new(OURS);
    config.vlan = Some(Vlan { id: 7, priority: 3 });
    let mut node = Node::new(config);
    let added = node
        .interface
        .add_ipv4(OUR_V4, 24, Claim::Unannounced, Ns::ZERO);
    added.unwrap();
    assert!(node.give(&request).is_none());
    assert!(node.give(&tagged(8, &request)).is_none());
    let reply = node.give(&tagged(0x2007, &request)).unwrap();
    assert_eq!(reply[12..16], [0x81, 0, 0x60, 7]);
    assert_eq!(node.dropped(DropReason::OtherVlan), 2);
    node.run(10_000);
    assert!(
        node.sent
            .iter()
            .all(|(_, frame)| frame[12..16] == [0x81, 0, 0x60, 7])
    );
}

#[test]
fn every_wrong_frame_has_its_count() {
    let mut node = Node::ready();
    let mut is_dropped = |frame: &[u8], reason: DropReason| {
        let before = node.dropped(reason);
        assert_eq!(node.give(frame), None, "{reason:?}");
        assert_eq!(node.dropped(reason), before + 1, "{reason:?}");
    };
    let echo = echo_v4(PEER, PEER_V4, OUR_V4, 1);
    let changed = |at: usize, byte: u8| {
        let mut frame = echo.clone();
        frame[at] = byte;
        frame
    };
    is_dropped(&echo[..13], DropReason::Truncated);
    is_dropped(&echo[..40], DropReason::Truncated);
    is_dropped(&changed(5, 9), DropReason::OtherStation);
    is_dropped(&changed(6, 3), DropReason::BadSourceMac);
    is_dropped(&changed(13, 1), DropReason::OtherEthertype);
    is_dropped(&changed(14, 0x44), DropReason::BadIpHeader);
    is_dropped(&changed(24, 9), DropReason::BadChecksum);
    is_dropped(&changed(60, 9), DropReason::BadChecksum);
    let own = echo_v4(OURS, PEER_V4, OUR_V4, 1);
    is_dropped(&own, DropReason::OwnSource);
    let other = ipv4(PEER, 17, (PEER_V4, OUR_V4), &[0; 20]);
    is_dropped(&other, DropReason::OtherProtocol);
    let far = ipv4(PEER, 17, (PEER_V4, [10, 9, 0, 7].into()), &[0; 20]);
    is_dropped(&far, DropReason::OtherAddress);
    let mut arp = arp_request(PEER, PEER_V4, OUR_V4);
    arp[15] = 6;
    is_dropped(&arp, DropReason::BadArp);
    for sender in [
        MacAddr::BROADCAST,
        MacAddr([1, 0, 0x5E, 0, 0, 1]),
        MacAddr::ZERO,
    ] {
        let mut arp = arp_request(PEER, PEER_V4, OUR_V4);
        arp[22..28].copy_from_slice(&sender.0);
        is_dropped(&arp, DropReason::BadArp);
    }
    is_dropped(
        &arp_request(PEER, PEER_V4, [10, 9, 0, 7].into()),
        DropReason::ArpNotForUs,
    );
    // Neighbour discovery that a router has passed on.
    let mut far = solicitation(PEER, PEER_V6, OUR_V6, Some(PEER));
    far[21] = 254;
    is_dropped(&far, DropReason::BadHopLimit);
    // A source MAC in a search for duplicates (RFC 4861 7.1.1).
    let bad = solicitation(PEER, Ipv6Addr::UNSPECIFIED, OUR_V6, Some(PEER));
    is_dropped(&bad, DropReason::BadMessage);
    // An option of length 0 (RFC 4861 4.6).
    let mut endless = [&[135u8, 0, 0, 0, 0, 0, 0, 0], &OUR_V6.octets()[..]].concat();
    endless.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    let endless = ipv6(PEER, &icmp6(PEER_V6, OUR_V6, 255), &endless);
    is_dropped(&endless, DropReason::BadMessage);
}

#[test]
fn path_mtus_are_taken_of_our_own_packets_only() {
    let mut node = Node::ready();
    let far_v4 = Ipv4Addr::new(10, 77, 0, 1);
    let far_v6 = Ipv6Addr::new(0x2001, 0xDB8, 9, 0, 0, 0, 0, 1);
    node.give(&too_big_v4(PEER_V4, far_v4, 1400));
    node.give(&too_big_v6(PEER_V6, far_v6, 1400));
    node.give(&too_big_v4(OUR_V4, [224, 0, 0, 1].into(), 1400));
    assert_eq!(node.dropped(DropReason::QuotedNotOurs), 3);
    assert_eq!(node.interface.path_mtu(far_v4.into()), 1500);
    node.give(&too_big_v4(OUR_V4, far_v4, 1400));
    node.give(&too_big_v6(OUR_V6, far_v6, 1300));
    node.give(&too_big_v6(OUR_V6, far_v6, 1279));
    let (v4, v6) = (IpAddr::V4(far_v4), IpAddr::V6(far_v6));
    let event = |ip, mtu| Event::PathMtu { ip, mtu };
    assert_eq!(node.events(), [event(v4, 1400), event(v6, 1300)]);
    assert_eq!(node.interface.path_mtu(v4), 1400);
    assert_eq!(node.interface.path_mtu(v6), 1300);
    node.run(600_001);
    assert_eq!(node.interface.path_mtu(v4), 1500);
    assert_eq!(node.interface.path_mtu(v6), 1500);
}

#[test]
fn a_reply_that_nobody_waits_for_is_no_event() {
    let mut node = Node::ready();
    let mut reply = echo_v4(PEER, PEER_V4, OUR_V4, 1);
    reply[34] = 0;
    super::frames::put_checksums_right(&mut reply);
    assert_eq!(node.give(&reply), None);
    assert_eq!(node.dropped(DropReason::EchoUnasked), 1);
    assert!(node.events().is_empty());
}
