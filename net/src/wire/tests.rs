//! What is built is read again, and any bytes are read or refused.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::vec;
use std::vec::Vec;

use proptest::collection;
use proptest::prelude::*;
use smoltcp::wire as theirs;

use super::arp::{Arp, Operation};
use super::icmpv4::{self, Icmpv4};
use super::icmpv6::{self, Icmpv6};
use super::nd::{self, Advertisement, Nd};
use super::{Ethernet, ICMPV4, ICMPV6, Ipv4, Ipv6, Vlan, Writer, igmp};
use crate::mac::{MacAddr, solicited_node};

fn built(build: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buffer = vec![0; 2048];
    let mut writer = Writer::new(&mut buffer);
    build(&mut writer);
    let length = writer.finish().unwrap();
    buffer.truncate(length);
    buffer
}

prop_compose! {
    fn mac()(mut bytes: [u8; 6]) -> MacAddr {
        bytes[0] = bytes[0] & !1 | 2;
        MacAddr(bytes)
    }
}

fn v4() -> impl Strategy<Value = Ipv4Addr> {
    (1u8..=126, any::<[u8; 3]>()).prop_map(|(a, [b, c, d])| Ipv4Addr::new(a, b, c, d))
}

fn v6() -> impl Strategy<Value = Ipv6Addr> {
    any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(bits >> 3 | 1 << 125))
}

proptest! {
    #[test]
    fn ethernet(destination in mac(), source in mac(), ethertype in 0x600u16..0x8100,
                tag in proptest::option::of((0u16..4096, 0u8..8)), payload: Vec<u8>) {
        let vlan = tag.map(|(id, priority)| Vlan { id, priority });
        let header = Ethernet { destination, source, vlan, ethertype };
        let frame = built(|writer| {
            header.build(writer);
            writer.put(&payload);
        });
        prop_assert_eq!(Ethernet::parse(&frame), Ok((header, &payload[..])));
    }

    #[test]
    fn arp(is_reply: bool, sender_mac in mac(), target_mac in mac(), sender_ip in v4(),
           target_ip in v4(), padding in collection::vec(any::<u8>(), 0..20)) {
        let operation = if is_reply { Operation::Reply } else { Operation::Request };
        let arp = Arp { operation, sender_mac, sender_ip, target_mac, target_ip };
        let mut bytes = built(|writer| arp.build(writer));
        let packet = theirs::ArpPacket::new_checked(&bytes).unwrap();
        let theirs::ArpRepr::EthernetIpv4 { source_protocol_addr, target_protocol_addr, .. } =
            theirs::ArpRepr::parse(&packet).unwrap() else { unreachable!() };
        prop_assert_eq!((source_protocol_addr, target_protocol_addr), (sender_ip, target_ip));
        bytes.extend(padding);
        prop_assert_eq!(Arp::parse(&bytes), Ok(arp));
    }

    #[test]
    fn echo_v4(source in v4(), destination in v4(), ttl: u8, router_alert: bool, is_reply: bool,
               ident: u16, seq: u16, payload in collection::vec(any::<u8>(), 0..1400)) {
        let header = Ipv4 { source, destination, protocol: ICMPV4, ttl, router_alert };
        let packet = built(|writer| {
            header.build(writer, icmpv4::ECHO_HEADER + payload.len());
            icmpv4::build_echo(writer, is_reply, ident, seq, &payload);
        });
        let judged = theirs::Ipv4Packet::new_checked(&packet).unwrap();
        prop_assert!(judged.verify_checksum());
        let judged = theirs::Icmpv4Packet::new_checked(judged.payload()).unwrap();
        prop_assert!(judged.verify_checksum());
        let (read, message) = Ipv4::parse(&packet).unwrap();
        prop_assert_eq!(read, Ipv4 { router_alert: false, ..header });
        let echo = Icmpv4::Echo { is_reply, ident, seq, payload: &payload };
        prop_assert_eq!(Icmpv4::parse(message), Ok(echo));
    }

    #[test]
    fn echo_v6(source in v6(), destination in v6(), hop_limit: u8, is_reply: bool,
               ident: u16, seq: u16, payload in collection::vec(any::<u8>(), 0..1400)) {
        let header = Ipv6 { source, destination, protocol: ICMPV6, hop_limit, router_alert: false };
        let packet = built(|writer| {
            icmpv6::build_echo(writer, &header, is_reply, (ident, seq), &payload);
        });
        let judged = theirs::Ipv6Packet::new_checked(&packet).unwrap();
        let judged = theirs::Icmpv6Packet::new_checked(judged.payload()).unwrap();
        prop_assert!(judged.verify_checksum(&source, &destination));
        let (read, message) = Ipv6::parse(&packet).unwrap();
        prop_assert_eq!(read, header);
        let echo = Icmpv6::Echo { is_reply, ident, seq, payload: &payload };
        prop_assert_eq!(Icmpv6::parse(&read, message), Ok(echo));
    }

    #[test]
    fn solicitations(source in v6(), target in v6(), own in mac(), is_dad: bool) {
        let source = if is_dad { Ipv6Addr::UNSPECIFIED } else { source };
        let source_mac = (!is_dad).then_some(own);
        let group = solicited_node(target);
        let packet = built(|writer| {
            nd::build_solicitation(writer, (source, group), target, source_mac);
        });
        let (header, message) = Ipv6::parse(&packet).unwrap();
        let read = Icmpv6::parse(&header, message);
        prop_assert_eq!(read, Ok(Icmpv6::Nd(Nd::Solicitation { target, source_mac })));
        let judged = theirs::Icmpv6Packet::new_checked(message).unwrap();
        prop_assert!(judged.verify_checksum(&source, &group));
        let judged = theirs::NdiscRepr::parse(&judged).unwrap();
        prop_assert_eq!(judged, theirs::NdiscRepr::NeighborSolicit {
            target_addr: target,
            lladdr: source_mac.map(|mac| theirs::EthernetAddress(mac.0).into()),
        });
    }

    #[test]
    fn advertisements(to in v6(), target in v6(), own in mac(), flags: [bool; 4]) {
        let [is_router, is_solicited, overrides, has_mac] = flags;
        let target_mac = has_mac.then_some(own);
        let what = Advertisement { target, target_mac, is_router, is_solicited, overrides };
        let packet = built(|writer| nd::build_advertisement(writer, (target, to), &what));
        let (header, message) = Ipv6::parse(&packet).unwrap();
        let read = Icmpv6::parse(&header, message);
        prop_assert_eq!(read, Ok(Icmpv6::Nd(Nd::Advertisement(what))));
        let judged = theirs::Icmpv6Packet::new_checked(message).unwrap();
        let theirs::NdiscRepr::NeighborAdvert { flags, target_addr, .. } =
            theirs::NdiscRepr::parse(&judged).unwrap() else { unreachable!() };
        prop_assert_eq!(target_addr, target);
        prop_assert_eq!(flags.contains(theirs::NdiscNeighborFlags::OVERRIDE), overrides);
    }

    #[test]
    fn router_solicitations(source in v6(), own in mac()) {
        let packet = built(|writer| nd::build_router_solicitation(writer, source, Some(own)));
        let (header, message) = Ipv6::parse(&packet).unwrap();
        let read = Icmpv6::parse(&header, message);
        prop_assert_eq!(read, Ok(Icmpv6::Nd(Nd::RouterSolicitation)));
        let judged = theirs::Icmpv6Packet::new_checked(message).unwrap();
        let judged = theirs::NdiscRepr::parse(&judged).unwrap();
        let lladdr = Some(theirs::EthernetAddress(own.0).into());
        prop_assert_eq!(judged, theirs::NdiscRepr::RouterSolicit { lladdr });
    }

    /// Every parser, on the bytes as they are, and behind a correct header and checksum.
    #[test]
    fn any_bytes(bytes in collection::vec(any::<u8>(), 0..300), source in v6(), to in v6()) {
        let _ = Ethernet::parse(&bytes);
        let _ = Arp::parse(&bytes);
        let _ = Ipv4::parse(&bytes);
        let _ = Ipv6::parse(&bytes);
        let mut bytes = bytes;
        if bytes.len() >= 4 {
            bytes[2..4].fill(0);
            let sum = super::Checksum::new().bytes(&bytes).finish();
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        let _ = Icmpv4::parse(&bytes);
        let _ = igmp::Query::parse(&bytes);
        for kind in [2, 128, 129, 130, 133, 134, 135, 136, 137] {
            if bytes.len() < 4 {
                break;
            }
            bytes[..2].copy_from_slice(&[kind, 0]);
            let hop_limit = if kind == 130 { 1 } else { 255 };
            let header = Ipv6 { source, destination: to, protocol: ICMPV6, hop_limit, router_alert: true };
            bytes[2..4].fill(0);
            let sum = super::Checksum::new()
                .pseudo_header(source, to, ICMPV6, bytes.len())
                .bytes(&bytes)
                .finish();
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
            if let Ok(Icmpv6::Nd(Nd::RouterAdvertisement(read))) = Icmpv6::parse(&header, &bytes) {
                prop_assert!(read.prefixes().count() <= bytes.len() / 32);
            }
        }
    }
}

#[test]
fn exponents_of_queries() {
    // RFC 3376 4.1.1: 0x8F is (15 | 16) << 3 tenths.
    let mut query = vec![0x11, 0x8F, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0];
    let sum = super::Checksum::new().bytes(&query).finish();
    query[2..4].copy_from_slice(&sum.to_be_bytes());
    let read = igmp::Query::parse(&query).unwrap();
    assert_eq!(read.max_response, crate::Ns::from_ms(24_800));
    assert_eq!((read.version, read.group), (3, None));
}

#[test]
fn what_does_not_fit_is_not_a_frame() {
    let mut buffer = [0; 5];
    let mut writer = Writer::new(&mut buffer);
    writer.put(&[1; 4]);
    writer.put_u16(2);
    writer.put(&[3]);
    assert_eq!(writer.finish(), None);
}
