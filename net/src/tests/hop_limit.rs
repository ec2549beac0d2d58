//! How far packets go, as routers say (RFC 4861 6.3.4).

use core::net::IpAddr;
use std::prelude::v1::*;

use super::frames::{
    OUR_V4, OUR_V6, OURS, PEER, PEER_V4, PEER_V6, echo_v4, echo_v6, put_checksums_right,
    router_advertisement,
};
use super::node::Node;
use crate::wire::nd::ALL_ROUTERS;
use crate::{Config, DropReason};

/// Where an IPv6 packet and the message in it begin.
const IP: usize = 14;
const MESSAGE: usize = IP + 40;

/// An advertisement of a router for half an hour that says this.
fn says(hop_limit: u8) -> Vec<u8> {
    let mut frame = router_advertisement(1800, None, &[]);
    frame[MESSAGE + 4] = hop_limit;
    put_checksums_right(&mut frame);
    frame
}

fn limits(node: &Node) -> [u8; 2] {
    [PEER_V4.into(), PEER_V6.into()].map(|ip: IpAddr| node.interface.hop_limit(ip))
}

#[test]
fn packets_go_as_far_as_routers_say() {
    let mut node = Node::ready();
    assert_eq!(limits(&node), [64, 64]);
    node.give(&says(0));
    assert_eq!(limits(&node), [64, 64], "0 says nothing");
    node.give(&says(17));
    assert_eq!(limits(&node), [64, 17]);
    let reply = node.give(&echo_v6(PEER, PEER_V6, OUR_V6, 1)).unwrap();
    assert_eq!(reply[IP + 7], 17);
    let reply = node.give(&echo_v4(PEER, PEER_V4, OUR_V4, 1)).unwrap();
    assert_eq!(reply[IP + 8], 64);
    node.give(&says(0));
    assert_eq!(limits(&node), [64, 17], "what was said stays");
    node.give(&says(255));
    assert_eq!(limits(&node), [64, 255]);
}

/// Each of these could be from beyond the link, or is damaged.
#[test]
fn an_advertisement_that_no_router_of_the_link_sends_says_nothing() {
    let mut node = Node::ready();
    let changed = |at: usize, byte: u8| {
        let mut frame = says(17);
        frame[at] = byte;
        put_checksums_right(&mut frame);
        frame
    };
    let mut damaged = says(17);
    damaged[MESSAGE + 4] = 18;
    let short = {
        let mut frame = says(17);
        frame.truncate(MESSAGE + 12);
        frame[IP + 4..IP + 6].copy_from_slice(&[0, 12]);
        put_checksums_right(&mut frame);
        frame
    };
    // The source of the packet is not of the link, a router has passed it on, a code that is none,
    // an option of no length.
    for (frame, why) in [
        (changed(IP + 8, 0x20), DropReason::BadMessage),
        (changed(IP + 7, 254), DropReason::BadHopLimit),
        (changed(MESSAGE + 1, 1), DropReason::BadMessage),
        (changed(MESSAGE + 17, 0), DropReason::BadMessage),
        (short, DropReason::BadMessage),
        (damaged, DropReason::BadChecksum),
    ] {
        let before = node.dropped(why);
        node.give(&frame);
        assert_eq!(node.dropped(why), before + 1, "{why:?}");
        assert_eq!(limits(&node), [64, 64], "{why:?}");
    }
}

/// Whose addresses are given all the same asks routers how far packets go, and takes nothing else
/// from them.
#[test]
fn without_autoconfiguration_routers_say_that_alone() {
    let config = Config {
        autoconfigure: false,
        ..Config::new(OURS)
    };
    let mut node = Node::new(config);
    node.run(20_000);
    let asked = node.sent_icmpv6(133);
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[0].1.destination, ALL_ROUTERS);
    node.events();
    let prefix = "2001:db8:7::".parse().unwrap();
    let mut frame = router_advertisement(1800, Some(1400), &[(prefix, 64, 0xC0, 9000, 8000)]);
    frame[MESSAGE + 4] = 17;
    put_checksums_right(&mut frame);
    node.give(&frame);
    assert_eq!(limits(&node), [64, 17]);
    node.run(5000);
    assert_eq!(node.events(), []);
    assert_eq!(node.interface.routers().count(), 0);
    assert_eq!(node.interface.addresses().count(), 1);
    assert_eq!(node.interface.path_mtu(PEER_V6.into()), 1500);
    // Who has heard a router asks for none.
    let mut node = Node::new(config);
    node.run(1500);
    node.give(&says(17));
    node.run(20_000);
    assert!(node.sent_icmpv6(133).len() <= 1);
}
