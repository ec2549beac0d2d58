//! Own addresses: probing, duplicates, defence, autoconfiguration, lifetimes.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::prelude::v1::*;
use std::vec;

use super::frames::{
    OUR_V4, OUR_V6, OURS, PEER, PEER_V4, PEER_V6, ROUTER, advertisement, arp_reply, arp_request,
    echo_v6, router_advertisement, solicitation,
};
use super::node::Node;
use crate::wire::arp::Operation;
use crate::wire::nd::{ALL_NODES, Advertisement};
use crate::{
    Address, AddressError, AddressState, Claim, Config, DropReason, Event, MacAddr, Ns, Resolution,
    link_local, solicited_node,
};

const V4: IpAddr = IpAddr::V4(OUR_V4);
const V6: IpAddr = IpAddr::V6(OUR_V6);
const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 7, 0, 0, 0, 0, 0);

fn only_v4(claim: Claim) -> Node {
    let mut config = Config::new(OURS);
    config.ipv6 = false;
    let mut node = Node::new(config);
    let added = node.interface.add_ipv4(OUR_V4, 24, claim, Ns::ZERO);
    added.unwrap();
    node
}

fn state(node: &Node, ip: IpAddr) -> Option<AddressState> {
    let mut own = node.interface.addresses();
    own.find(|own| own.ip == ip).map(|own| own.state)
}

fn find(node: &Node, ip: IpAddr) -> Address {
    *node.interface.addresses().find(|own| own.ip == ip).unwrap()
}

#[test]
fn an_ipv4_address_is_probed_and_then_announced() {
    let mut node = only_v4(Claim::Probed);
    assert_eq!(state(&node, V4), Some(AddressState::Tentative));
    let asked = arp_request(PEER, PEER_V4, OUR_V4);
    assert_eq!(node.give(&asked), None, "not ours yet (RFC 5227 2.1.1)");
    node.run(15_000);
    let arp = node.sent_arp();
    assert_eq!(arp.len(), 5);
    for (_, probe) in &arp[..3] {
        assert_eq!(probe.sender_ip, Ipv4Addr::UNSPECIFIED);
        assert_eq!(probe.target_ip, OUR_V4);
    }
    for (_, announcement) in &arp[3..] {
        assert_eq!(announcement.operation, Operation::Request);
        assert_eq!(
            (announcement.sender_ip, announcement.target_ip),
            (OUR_V4, OUR_V4)
        );
    }
    let gap = |n: usize| arp[n].0 - arp[n - 1].0;
    assert!(arp[0].0 <= Ns::from_secs(1));
    for n in [1, 2] {
        assert!(Ns::from_secs(1) <= gap(n) && gap(n) <= Ns::from_secs(2));
    }
    assert_eq!((gap(3), gap(4)), (Ns::from_secs(2), Ns::from_secs(2)));
    assert_eq!(node.events(), [Event::AddressAdded(V4)]);
    assert!(node.give(&asked).is_some());
}

#[test]
fn an_ipv4_address_that_another_station_has_or_wants_is_not_used() {
    let probe = arp_request(PEER, Ipv4Addr::UNSPECIFIED, OUR_V4);
    let other = arp_request(PEER, OUR_V4, PEER_V4);
    for conflict in [arp_reply(PEER, OUR_V4), probe, other] {
        let mut node = only_v4(Claim::Probed);
        node.run(1500);
        assert_eq!(node.give(&conflict), None);
        let event = Event::AddressDuplicate { ip: V4, by: PEER };
        assert_eq!(node.events(), [event]);
        node.sent.clear();
        node.run(60_000);
        assert!(node.sent.is_empty());
        assert_eq!(state(&node, V4), Some(AddressState::Duplicate));
        assert_eq!(
            node.interface.lookup(PEER_V4.into(), node.now),
            Resolution::NoRoute
        );
        node.interface.remove_address(V4, node.now).unwrap();
        assert!(node.events().is_empty(), "it was never there");
    }
}

#[test]
fn an_ipv4_address_is_defended_every_ten_seconds() {
    let mut node = only_v4(Claim::Announced);
    node.run(5000);
    assert_eq!(node.sent_arp().len(), 2);
    node.events();
    // Once a second for half a minute.
    let mut events = 0;
    for _ in 0..30 {
        node.give(&arp_reply(PEER, OUR_V4));
        node.run(1000);
        events += node.events().len();
    }
    assert_eq!((node.sent_arp().len(), events), (3, 3));
    assert_eq!(state(&node, V4), Some(AddressState::Preferred));
}

#[test]
fn an_ipv6_address_is_used_after_a_solicitation_that_nobody_answers() {
    let mut node = Node::new(Config::new(OURS));
    let own = IpAddr::V6(link_local(OURS));
    assert_eq!(state(&node, own), Some(AddressState::Tentative));
    let asked = solicitation(PEER, link_local(PEER), link_local(OURS), Some(PEER));
    assert_eq!(node.give(&asked), None);
    let peer = link_local(PEER).into();
    assert_eq!(node.interface.lookup(peer, node.now), Resolution::Pending);
    node.run(2100);
    let sent = node.sent_icmpv6(135);
    assert_eq!(sent.len(), 1);
    assert!(sent[0].1.source.is_unspecified());
    assert_eq!(sent[0].1.destination, solicited_node(link_local(OURS)));
    assert_eq!(node.events(), [Event::AddressAdded(own)]);
    assert!(node.give(&asked).is_some());
    // Then routers are asked three times, four seconds apart.
    node.run(20_000);
    let sent = node.sent_icmpv6(133);
    assert_eq!(sent.len(), 3);
    assert_eq!(sent[2].0 - sent[0].0, Ns::from_secs(8));
}

#[test]
fn an_ipv6_address_that_another_station_has_or_wants_is_not_used() {
    const WANTED: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 0x77);
    let says = Advertisement {
        target: WANTED,
        target_mac: Some(PEER),
        is_router: false,
        is_solicited: false,
        overrides: true,
    };
    let wanted = solicitation(PEER, Ipv6Addr::UNSPECIFIED, WANTED, None);
    for conflict in [advertisement(PEER, ALL_NODES, &says), wanted] {
        let mut node = Node::new(Config::new(OURS));
        node.run(5000);
        node.interface.add_ipv6(WANTED, 64, node.now).unwrap();
        node.events();
        let group = IpAddr::V6(solicited_node(WANTED));
        assert!(node.interface.groups().any(|joined| joined == group));
        node.give(&conflict);
        let event = Event::AddressDuplicate {
            ip: WANTED.into(),
            by: PEER,
        };
        assert_eq!(node.events(), [event]);
        node.run(60_000);
        assert_eq!(state(&node, WANTED.into()), Some(AddressState::Duplicate));
        assert!(node.interface.groups().all(|joined| joined != group));
    }
    // One that is used already stays, and somebody hears of it.
    let mut node = Node::ready();
    let says = Advertisement {
        target: OUR_V6,
        ..says
    };
    node.give(&advertisement(PEER, ALL_NODES, &says));
    assert_eq!(
        node.events(),
        [Event::AddressContended { ip: V6, by: PEER }]
    );
    assert_eq!(state(&node, V6), Some(AddressState::Preferred));
    // A station that looks for duplicates is answered to all nodes.
    let wanted = solicitation(PEER, Ipv6Addr::UNSPECIFIED, OUR_V6, None);
    let reply = node.give(&wanted).unwrap();
    assert_eq!(reply[..6], [0x33, 0x33, 0, 0, 0, 1]);
}

#[test]
fn an_address_is_made_of_an_advertised_prefix() {
    let mut node = Node::ready();
    node.give(&router_advertisement(
        1800,
        Some(1400),
        &[(PREFIX, 64, 0xC0, 9000, 8000)],
    ));
    let ip = IpAddr::V6("2001:db8:7::e8:10ff:fe00:1".parse().unwrap());
    let router = IpAddr::V6(link_local(ROUTER));
    assert_eq!(node.events(), [Event::RouterAdded(router)]);
    assert_eq!(state(&node, ip), Some(AddressState::Tentative));
    node.run(3000);
    assert_eq!(node.events(), [Event::AddressAdded(ip)]);
    let beyond = IpAddr::V6("2001:db8:ffff::1".parse().unwrap());
    assert_eq!(node.interface.path_mtu(beyond), 1400);
    assert_eq!(node.interface.path_mtu(V4), 1500);
    let hop = node.interface.next_hop(beyond).unwrap();
    assert_eq!(hop.via, router);
    let near = IpAddr::V6("2001:db8:7::99".parse().unwrap());
    let hop = node.interface.next_hop(near).unwrap();
    assert_eq!((hop.via, hop.source), (near, ip));
    // The router's lifetime ends, then the preferred, then the valid one.
    node.run(1_800_000);
    assert_eq!(node.events(), [Event::RouterRemoved(router)]);
    assert_eq!(node.interface.next_hop(beyond), None);
    node.run(6_300_000);
    assert_eq!(node.events(), [Event::AddressDeprecated(ip)]);
    node.run(1_000_000);
    assert_eq!(node.events(), [Event::AddressRemoved(ip)]);
    assert_eq!(node.interface.next_hop(near), None);
}

#[test]
fn a_router_that_says_that_it_is_none_is_removed() {
    let mut node = Node::ready();
    node.give(&router_advertisement(1800, None, &[]));
    node.give(&router_advertisement(0, None, &[]));
    let router = IpAddr::V6(link_local(ROUTER));
    let events = [Event::RouterAdded(router), Event::RouterRemoved(router)];
    assert_eq!(node.events(), events);
}

#[test]
fn a_router_that_does_not_answer_is_passed_over() {
    let mut node = Node::ready();
    let first = router_advertisement(1800, None, &[]);
    let mut second = first.clone();
    // Another source address: the last byte of it.
    second[37] = 0x77;
    super::frames::put_checksums_right(&mut second);
    node.give(&first);
    node.give(&second);
    let routers: Vec<_> = node.interface.routers().collect();
    assert_eq!(routers.len(), 2);
    let far = IpAddr::V6("2001:db8:ffff::1".parse().unwrap());
    let via = |node: &Node| node.interface.next_hop(far).unwrap().via;
    assert_eq!(via(&node), IpAddr::V6(routers[0]));
    assert_eq!(node.interface.lookup(far, node.now), Resolution::Pending);
    node.run(3500);
    assert_eq!(via(&node), IpAddr::V6(routers[1]));
}

#[test]
fn a_short_lifetime_is_believed_as_far_as_two_hours() {
    const HOUR: u32 = 3600;
    let lifetime = |first: u32, then: u32| {
        let mut node = Node::ready();
        node.give(&router_advertisement(
            0,
            None,
            &[(PREFIX, 64, 0x40, first, 0)],
        ));
        node.give(&router_advertisement(
            0,
            None,
            &[(PREFIX, 64, 0x40, then, 0)],
        ));
        let ip = IpAddr::V6("2001:db8:7::e8:10ff:fe00:1".parse().unwrap());
        let until = find(&node, ip).valid_until;
        until.map(|until| (until - node.now).0 / 1_000_000_000 / u64::from(HOUR))
    };
    assert_eq!(lifetime(24 * HOUR, 30 * HOUR), Some(30), "longer");
    assert_eq!(
        lifetime(24 * HOUR, 3 * HOUR),
        Some(3),
        "more than two hours"
    );
    assert_eq!(lifetime(24 * HOUR, HOUR), Some(2), "less than two hours");
    assert_eq!(lifetime(24 * HOUR, 0), Some(2), "none");
    assert_eq!(lifetime(u32::MAX, 0), Some(2), "none, of one for ever");
    assert_eq!(lifetime(HOUR, 0), Some(1), "less than two hours are left");
    assert_eq!(
        lifetime(HOUR, 2 * HOUR),
        Some(2),
        "longer than what is left"
    );
    assert_eq!(lifetime(HOUR, u32::MAX), None, "for ever");
}

#[test]
fn prefixes_that_make_no_address() {
    let mut node = Node::ready();
    let before = node.interface.addresses().count();
    let link_local_prefix = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 0);
    let prefixes = [
        (PREFIX, 64, 0x80, 9000, 8000),
        (PREFIX, 63, 0x40, 9000, 8000),
        (PREFIX, 129, 0xC0, 9000, 8000),
        (PREFIX, 64, 0x40, 8000, 9000),
        (PREFIX, 64, 0x40, 0, 0),
        (link_local_prefix, 64, 0xC0, 9000, 8000),
        (ALL_NODES, 64, 0xC0, 9000, 8000),
    ];
    node.give(&router_advertisement(0, None, &prefixes));
    assert_eq!(node.interface.addresses().count(), before);
    // More prefixes than an interface takes.
    let many: Vec<_> = (0..20)
        .map(|n| {
            (
                Ipv6Addr::new(0x2001, 0xDB8, 8, n, 0, 0, 0, 0),
                64,
                0xC0,
                9000,
                8000,
            )
        })
        .collect();
    node.give(&router_advertisement(0, None, &many));
    node.run(10_000);
    assert_eq!(node.interface.addresses().count(), before + 6);
    assert!(node.dropped(DropReason::RouterRoom) > 0);
    assert!(
        node.interface.add_ipv6(PREFIX, 64, node.now).is_ok(),
        "there is room"
    );
}

#[test]
fn a_duplicate_link_local_address_makes_no_others() {
    let mut node = Node::new(Config::new(OURS));
    node.give(&solicitation(
        PEER,
        Ipv6Addr::UNSPECIFIED,
        link_local(OURS),
        None,
    ));
    node.run(5000);
    assert!(node.sent_icmpv6(133).is_empty(), "no router is asked");
    node.give(&router_advertisement(
        1800,
        None,
        &[(PREFIX, 64, 0xC0, 9000, 8000)],
    ));
    assert_eq!(node.interface.addresses().count(), 1);
}

#[test]
fn addresses_that_no_interface_has() {
    let mut node = Node::ready();
    let now = node.now;
    let interface = &mut node.interface;
    let mut add =
        |ip: [u8; 4], length| interface.add_ipv4(ip.into(), length, Claim::Announced, now);
    for ip in [
        [0; 4],
        [255; 4],
        [224, 0, 0, 1],
        [127, 0, 0, 1],
        [10, 0, 0, 0],
        [10, 0, 0, 255],
    ] {
        assert_eq!(add(ip, 24), Err(AddressError::Invalid), "{ip:?}");
    }
    assert_eq!(add([10, 0, 0, 1], 33), Err(AddressError::PrefixLength));
    assert_eq!(add(OUR_V4.octets(), 16), Err(AddressError::Exists));
    assert_eq!(add([10, 0, 0, 0], 31), Ok(()));
    let mut full = Ok(());
    for n in 2..40 {
        full = add([10, 0, 1, n], 24);
    }
    assert_eq!(full, Err(AddressError::Full));
    assert!(interface.add_ipv6(ALL_NODES, 64, now).is_err());
    let gone = interface.remove_address([10, 0, 0, 77].into(), now);
    assert_eq!(gone, Err(AddressError::NoSuch));
}

#[test]
fn the_own_address_needs_no_neighbour() {
    let mut node = Node::ready();
    let now = node.now;
    assert_eq!(node.interface.lookup(V4, now), Resolution::Known(OURS));
    assert_eq!(node.interface.lookup(V6, now), Resolution::Known(OURS));
    let broadcast = Resolution::Known(MacAddr::BROADCAST);
    assert_eq!(
        node.interface.lookup([10, 9, 0, 255].into(), now),
        broadcast
    );
    let far = IpAddr::from([192, 0, 2, 1]);
    assert_eq!(node.interface.lookup(far, now), Resolution::NoRoute);
    let all = crate::Prefix::new([0, 0, 0, 0].into(), 0).unwrap();
    node.interface.set_route(all, PEER_V4.into()).unwrap();
    assert_eq!(node.interface.lookup(far, now), Resolution::Pending);
    let known: Vec<_> = node.interface.neighbours().map(|entry| entry.ip).collect();
    assert_eq!(known, vec![IpAddr::V4(PEER_V4)]);
}

/// RFC 4429: who asks is answered at once, and nothing is asked from such an address.
#[test]
fn an_optimistic_address_answers_before_it_is_ours() {
    let asked = solicitation(PEER, PEER_V6, OUR_V6, Some(PEER));
    let with = |optimistic| {
        let mut config = Config::new(OURS);
        config.optimistic = optimistic;
        let mut node = Node::new(config);
        node.interface.add_ipv6(OUR_V6, 64, Ns::ZERO).unwrap();
        node
    };
    assert_eq!(with(false).give(&asked), None);
    let mut node = with(true);
    let reply = node.give(&asked).unwrap();
    // Behind the headers and the checksum: solicited, and not to replace what is known.
    assert_eq!(reply[14 + 40 + 4] & 0xE0, 0x40);
    assert!(node.give(&echo_v6(PEER, PEER_V6, OUR_V6, 1)).is_some());
    let now = node.now;
    assert_eq!(
        node.interface.lookup(PEER_V6.into(), now),
        Resolution::Pending
    );
    assert_eq!(node.interface.next_hop(PEER_V6.into()), None);
    node.run(10_000);
    let reply = node.give(&asked).unwrap();
    assert_eq!(reply[14 + 40 + 4] & 0xE0, 0x60, "it is ours");

    // Another station looks for duplicates of it.
    let mut node = with(true);
    node.give(&solicitation(PEER, Ipv6Addr::UNSPECIFIED, OUR_V6, None));
    assert_eq!(node.give(&asked), None);
    assert!(
        node.events()
            .contains(&Event::AddressDuplicate { ip: V6, by: PEER })
    );
}
