//! Reports of multicast groups, read by smoltcp where it has a reader.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::prelude::v1::*;
use std::vec;

use smoltcp::wire::{IgmpPacket, IgmpRepr, MldAddressRecord, MldRecordType};

use super::frames::{OUR_V4, OUR_V6, OURS, igmp_query, mld_query};
use super::node::Node;
use crate::wire::igmp::REPORTS;
use crate::wire::{Ethernet, Ipv4};
use crate::{Config, GroupError, MacAddr, Ns, link_local, solicited_node};

const V4: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const V6: Ipv6Addr = Ipv6Addr::new(0xFF05, 0, 0, 0, 0, 0, 0, 0x99);

/// IGMP messages that were sent, taken out.
fn igmp(node: &mut Node) -> Vec<(Ns, Ipv4, Vec<u8>)> {
    let mut found = vec![];
    for (at, frame) in node.sent.drain(..) {
        let (ethernet, packet) = Ethernet::parse(&frame).unwrap();
        if ethernet.ethertype != 0x0800 {
            continue;
        }
        let (header, message) = Ipv4::parse(packet).unwrap();
        assert_eq!((header.protocol, header.ttl), (2, 1));
        assert_eq!(frame[34..38], [0x94, 4, 0, 0], "router alert");
        assert_eq!(
            Some(ethernet.destination),
            crate::multicast_mac(header.destination.into())
        );
        found.push((at, header, message.to_vec()));
    }
    found
}

/// The records of a version 2 report, as smoltcp reads them.
fn records(message: &[u8]) -> Vec<(MldRecordType, Ipv6Addr)> {
    let count = usize::from(u16::from_be_bytes([message[6], message[7]]));
    let records = message[8..].chunks_exact(20).map(|record| {
        let record = MldAddressRecord::new_checked(record).unwrap();
        (record.record_type(), record.mcast_addr())
    });
    let records: Vec<_> = records.collect();
    assert_eq!(records.len(), count);
    records
}

#[test]
fn igmp_version_3_is_the_first_choice() {
    let mut node = Node::ready();
    node.interface.join(V4.into(), node.now).unwrap();
    node.run(5000);
    let sent = igmp(&mut node);
    assert_eq!(sent.len(), 2, "twice (RFC 3376 8.1)");
    for (_, header, message) in &sent {
        assert_eq!((header.source, header.destination), (OUR_V4, REPORTS));
        let record = [&[4u8, 0, 0, 0], &V4.octets()[..]].concat();
        assert_eq!(message[0], 0x22);
        assert_eq!(message[6..], [&[0, 1], &record[..]].concat());
    }
    node.give(&igmp_query(100, Ipv4Addr::UNSPECIFIED, true));
    node.run(10_001);
    let sent = igmp(&mut node);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].2[8], 2, "as before: MODE_IS_EXCLUDE");
    node.interface.leave(V4.into(), node.now).unwrap();
    node.run(5000);
    let sent = igmp(&mut node);
    assert_eq!((sent.len(), sent[0].2[8]), (2, 3), "to nothing included");
    assert_eq!(
        node.interface.leave(V4.into(), node.now),
        Err(GroupError::NoSuch)
    );
}

#[test]
fn igmp_follows_an_older_querier_for_a_time() {
    let mut node = Node::ready();
    node.interface.join(V4.into(), node.now).unwrap();
    node.run(5000);
    node.sent.clear();
    for (code, kind) in [(50, 0x16), (0, 0x12)] {
        node.give(&igmp_query(code, Ipv4Addr::UNSPECIFIED, false));
        node.run(10_001);
        let sent = igmp(&mut node);
        assert_eq!(sent.len(), 1);
        assert_eq!((sent[0].1.destination, sent[0].2[0]), (V4, kind));
        let packet = IgmpPacket::new_checked(&sent[0].2).unwrap();
        let report = IgmpRepr::parse(&packet).unwrap();
        assert!(
            matches!(report, IgmpRepr::MembershipReport { group_addr, .. } if group_addr == V4)
        );
    }
    node.run(260_000);
    node.give(&igmp_query(10, V4, true));
    node.run(2000);
    assert_eq!(igmp(&mut node)[0].2[0], 0x22);
    // A leaving of version 2 goes to all routers.
    node.give(&igmp_query(50, Ipv4Addr::UNSPECIFIED, false));
    node.run(6000);
    node.sent.clear();
    node.interface.leave(V4.into(), node.now).unwrap();
    node.run(3000);
    let sent = igmp(&mut node);
    let packet = IgmpPacket::new_checked(&sent[0].2).unwrap();
    let leave = IgmpRepr::parse(&packet).unwrap();
    assert_eq!(leave, IgmpRepr::LeaveGroup { group_addr: V4 });
    assert_eq!(sent[0].1.destination, Ipv4Addr::new(224, 0, 0, 2));
}

#[test]
fn mld_reports_the_groups_of_addresses_too() {
    let mut node = Node::new(Config::new(OURS));
    node.interface.join(V6.into(), Ns::ZERO).unwrap();
    node.run(10_000);
    let sent = node.sent_icmpv6(143);
    let own = solicited_node(link_local(OURS));
    for group in [own, V6] {
        let about = sent.iter().filter(|(_, _, message)| {
            records(message) == [(MldRecordType::ChangeToExclude, group)]
        });
        assert_eq!(about.count(), 2);
    }
    assert!(
        sent[0].1.source.is_unspecified(),
        "no address yet (RFC 3590 4)"
    );
    for (_, header, _) in &sent {
        assert_eq!((header.hop_limit, header.router_alert), (1, true));
    }
    node.give(&mld_query(1000, Ipv6Addr::UNSPECIFIED, true));
    node.run(1001);
    let sent = node.sent_icmpv6(143);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].1.source, link_local(OURS));
    let all: Vec<_> = [own, V6]
        .map(|group| (MldRecordType::ModeIsExclude, group))
        .into();
    assert_eq!(records(&sent[0].2), all);
    // An older querier gets a report of each group, sent to the group.
    node.give(&mld_query(1000, Ipv6Addr::UNSPECIFIED, false));
    node.run(1001);
    let sent = node.sent_icmpv6(131);
    let to: Vec<_> = sent
        .iter()
        .map(|(_, header, _)| header.destination)
        .collect();
    assert!(to.len() == 2 && to.contains(&own) && to.contains(&V6));
    node.interface.leave(V6.into(), node.now).unwrap();
    node.run(2000);
    assert_eq!(node.sent_icmpv6(132).len(), 2, "done");
}

#[test]
fn groups_are_counted_and_the_table_has_an_end() {
    let mut node = Node::ready();
    let now = node.now;
    let interface = &mut node.interface;
    let group = |n: u8| IpAddr::from([239, 0, 0, n]);
    assert_eq!(
        interface.join([10, 0, 0, 1].into(), now),
        Err(GroupError::NotMulticast)
    );
    interface.join(group(1), now).unwrap();
    interface.join(group(1), now).unwrap();
    interface.leave(group(1), now).unwrap();
    assert!(interface.groups().any(|joined| joined == group(1)));
    interface.leave(group(1), now).unwrap();
    assert!(interface.groups().all(|joined| joined != group(1)));
    let joined = (2..100).take_while(|n| interface.join(group(*n), now).is_ok());
    // One for each of the two IPv6 addresses, of which one may be the same.
    let own = [link_local(OURS), OUR_V6].map(solicited_node);
    assert_eq!(own[0], own[1]);
    assert_eq!(joined.count(), 31);
    assert_eq!(interface.join(group(200), now), Err(GroupError::Full));
    assert_eq!(
        interface.join([224, 0, 0, 1].into(), now),
        Err(GroupError::Full)
    );
    let mac = crate::multicast_mac(group(5));
    assert_eq!(mac, Some(MacAddr([1, 0, 0x5E, 0, 0, 5])));
}
