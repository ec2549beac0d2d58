//! Frames that others send, and checksums put right.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::prelude::v1::*;
use std::vec;

use crate::wire::Vlan;
use crate::wire::arp::{Arp, Operation};
use crate::wire::nd::{self, Advertisement};
use crate::wire::{
    Checksum, ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet, ICMPV4, ICMPV6, IGMP, Ipv4,
    Ipv6, Writer, icmpv4, icmpv6,
};
use crate::{MacAddr, link_local, multicast_mac, solicited_node};

pub(crate) const OURS: MacAddr = MacAddr([2, 0xE8, 0x10, 0, 0, 1]);
pub(crate) const PEER: MacAddr = MacAddr([2, 0, 0x5E, 0, 0, 2]);
pub(crate) const ROUTER: MacAddr = MacAddr([2, 0, 0x5E, 0, 0, 0xFE]);
pub(crate) const OUR_V4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
pub(crate) const PEER_V4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
pub(crate) const OUR_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
pub(crate) const PEER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 2);
pub(crate) const VLAN: Option<Vlan> = None;

/// A frame with what `body` writes behind its header.
pub(crate) fn frame(
    from: MacAddr,
    to: MacAddr,
    ethertype: u16,
    body: impl FnOnce(&mut Writer<'_>),
) -> Vec<u8> {
    let mut buffer = vec![0; 2048];
    let mut writer = Writer::new(&mut buffer);
    let header = Ethernet {
        destination: to,
        source: from,
        vlan: VLAN,
        ethertype,
    };
    header.build(&mut writer);
    body(&mut writer);
    let length = writer.finish().unwrap();
    buffer.truncate(length);
    buffer
}

pub(crate) fn arp(
    operation: Operation,
    (mac, ip): (MacAddr, Ipv4Addr),
    (target_mac, target_ip): (MacAddr, Ipv4Addr),
) -> Vec<u8> {
    let to = match operation {
        Operation::Request => MacAddr::BROADCAST,
        Operation::Reply => target_mac,
    };
    let packet = Arp {
        operation,
        sender_mac: mac,
        sender_ip: ip,
        target_mac,
        target_ip,
    };
    frame(mac, to, ETHERTYPE_ARP, |writer| packet.build(writer))
}

pub(crate) fn arp_request(mac: MacAddr, ip: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    arp(Operation::Request, (mac, ip), (MacAddr::ZERO, target))
}

pub(crate) fn arp_reply(mac: MacAddr, ip: Ipv4Addr) -> Vec<u8> {
    arp(Operation::Reply, (mac, ip), (OURS, OUR_V4))
}

pub(crate) fn ipv4(
    mac: MacAddr,
    protocol: u8,
    (source, destination): (Ipv4Addr, Ipv4Addr),
    payload: &[u8],
) -> Vec<u8> {
    let header = Ipv4 {
        source,
        destination,
        protocol,
        ttl: 64,
        router_alert: protocol == IGMP,
    };
    let to = multicast_mac(destination.into()).unwrap_or(OURS);
    frame(mac, to, ETHERTYPE_IPV4, |writer| {
        header.build(writer, payload.len());
        writer.put(payload);
    })
}

pub(crate) fn echo_v4(mac: MacAddr, from: Ipv4Addr, to: Ipv4Addr, seq: u16) -> Vec<u8> {
    let mut buffer = [0; 64];
    let mut writer = Writer::new(&mut buffer);
    icmpv4::build_echo(&mut writer, false, 1, seq, &[0x5A; 48]);
    let length = writer.finish().unwrap();
    ipv4(mac, ICMPV4, (from, to), &buffer[..length])
}

pub(crate) fn ipv6(mac: MacAddr, header: &Ipv6, payload: &[u8]) -> Vec<u8> {
    let to = multicast_mac(header.destination.into()).unwrap_or(OURS);
    let mut frame = frame(mac, to, ETHERTYPE_IPV6, |writer| {
        header.build(writer, payload.len());
        writer.put(payload);
    });
    put_checksums_right(&mut frame);
    frame
}

pub(crate) fn icmp6(source: Ipv6Addr, destination: Ipv6Addr, hop_limit: u8) -> Ipv6 {
    Ipv6 {
        source,
        destination,
        protocol: ICMPV6,
        hop_limit,
        router_alert: false,
    }
}

pub(crate) fn echo_v6(mac: MacAddr, from: Ipv6Addr, to: Ipv6Addr, seq: u16) -> Vec<u8> {
    let header = icmp6(from, to, 64);
    let destination = multicast_mac(to.into()).unwrap_or(OURS);
    frame(mac, destination, ETHERTYPE_IPV6, |writer| {
        icmpv6::build_echo(writer, &header, false, (1, seq), &[0x5A; 48]);
    })
}

pub(crate) fn solicitation(
    mac: MacAddr,
    from: Ipv6Addr,
    target: Ipv6Addr,
    source_mac: Option<MacAddr>,
) -> Vec<u8> {
    let group = solicited_node(target);
    let to = multicast_mac(group.into()).unwrap();
    frame(mac, to, ETHERTYPE_IPV6, |writer| {
        nd::build_solicitation(writer, (from, group), target, source_mac);
    })
}

pub(crate) fn advertisement(mac: MacAddr, to: Ipv6Addr, what: &Advertisement) -> Vec<u8> {
    let destination = multicast_mac(to.into()).unwrap_or(OURS);
    frame(mac, destination, ETHERTYPE_IPV6, |writer| {
        nd::build_advertisement(writer, (what.target, to), what);
    })
}

/// A prefix of an advertisement: flags, valid and preferred lifetime.
pub(crate) type Advertised = (Ipv6Addr, u8, u8, u32, u32);

pub(crate) fn router_advertisement(
    lifetime: u16,
    mtu: Option<u32>,
    prefixes: &[Advertised],
) -> Vec<u8> {
    let mut body = vec![134, 0, 0, 0, 64, 0];
    body.extend(lifetime.to_be_bytes());
    body.extend([0; 8]);
    body.extend([1, 1]);
    body.extend(ROUTER.0);
    if let Some(mtu) = mtu {
        body.extend([5, 1, 0, 0]);
        body.extend(mtu.to_be_bytes());
    }
    for (prefix, length, flags, valid, preferred) in prefixes {
        body.extend([3, 4, *length, *flags]);
        body.extend(valid.to_be_bytes());
        body.extend(preferred.to_be_bytes());
        body.extend([0; 4]);
        body.extend(prefix.octets());
    }
    let header = icmp6(link_local(ROUTER), nd::ALL_NODES, 255);
    ipv6(ROUTER, &header, &body)
}

pub(crate) fn too_big_v4(source: Ipv4Addr, destination: Ipv4Addr, mtu: u16) -> Vec<u8> {
    let mut message = vec![3, 4, 0, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend([0x45, 0, 0x05, 0xDC, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    message.extend(source.octets());
    message.extend(destination.octets());
    message.extend([0x12, 0xB7, 0x12, 0xB7, 0, 0, 0, 0]);
    let mut frame = ipv4(
        ROUTER,
        ICMPV4,
        (Ipv4Addr::new(10, 9, 0, 254), OUR_V4),
        &message,
    );
    put_checksums_right(&mut frame);
    frame
}

pub(crate) fn too_big_v6(source: Ipv6Addr, destination: Ipv6Addr, mtu: u32) -> Vec<u8> {
    let mut message = vec![2, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend([0x60, 0, 0, 0, 5, 0, 17, 64]);
    message.extend(source.octets());
    message.extend(destination.octets());
    ipv6(ROUTER, &icmp6(PEER_V6, OUR_V6, 64), &message)
}

pub(crate) fn igmp_query(code: u8, group: Ipv4Addr, is_v3: bool) -> Vec<u8> {
    let mut message = vec![0x11, code, 0, 0];
    message.extend(group.octets());
    if is_v3 {
        message.extend([2, 125, 0, 0]);
    }
    let to = match group.is_unspecified() {
        true => Ipv4Addr::new(224, 0, 0, 1),
        false => group,
    };
    let mut frame = ipv4(ROUTER, IGMP, (Ipv4Addr::UNSPECIFIED, to), &message);
    put_checksums_right(&mut frame);
    frame
}

pub(crate) fn mld_query(delay: u16, group: Ipv6Addr, is_v2: bool) -> Vec<u8> {
    let mut message = vec![130, 0, 0, 0];
    message.extend(delay.to_be_bytes());
    message.extend([0; 2]);
    message.extend(group.octets());
    if is_v2 {
        message.extend([2, 125, 0, 0]);
    }
    let to = if group.is_unspecified() {
        nd::ALL_NODES
    } else {
        group
    };
    let header = Ipv6 {
        router_alert: true,
        ..icmp6(link_local(ROUTER), to, 1)
    };
    ipv6(ROUTER, &header, &message)
}

/// One frame of each kind that is acted on.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let says = |is_solicited, overrides| Advertisement {
        target: PEER_V6,
        target_mac: Some(PEER),
        is_router: true,
        is_solicited,
        overrides,
    };
    let group = Ipv6Addr::new(0xFF05, 0, 0, 0, 0, 0, 0, 0x99);
    let prefix = (
        Ipv6Addr::new(0x2001, 0xDB8, 7, 0, 0, 0, 0, 0),
        64,
        0xC0,
        9000,
        8000,
    );
    vec![
        arp_request(PEER, PEER_V4, OUR_V4),
        arp_request(PEER, Ipv4Addr::UNSPECIFIED, OUR_V4),
        arp_request(PEER, OUR_V4, OUR_V4),
        arp_reply(PEER, PEER_V4),
        echo_v4(PEER, PEER_V4, OUR_V4, 1),
        echo_v4(PEER, PEER_V4, Ipv4Addr::BROADCAST, 1),
        frame(PEER, OURS, 0x8100, |writer| writer.put(&[0, 7, 8, 0])),
        echo_v6(PEER, PEER_V6, OUR_V6, 1),
        echo_v6(PEER, PEER_V6, nd::ALL_NODES, 1),
        solicitation(PEER, PEER_V6, OUR_V6, Some(PEER)),
        solicitation(PEER, Ipv6Addr::UNSPECIFIED, OUR_V6, None),
        advertisement(PEER, OUR_V6, &says(true, true)),
        advertisement(PEER, nd::ALL_NODES, &says(false, true)),
        advertisement(PEER, OUR_V6, &says(true, false)),
        router_advertisement(1800, Some(1400), &[prefix, prefix]),
        too_big_v4(OUR_V4, Ipv4Addr::new(10, 77, 0, 1), 1400),
        too_big_v6(OUR_V6, Ipv6Addr::new(0x2001, 0xDB8, 9, 0, 0, 0, 0, 1), 1400),
        igmp_query(0, Ipv4Addr::UNSPECIFIED, false),
        igmp_query(100, Ipv4Addr::new(239, 1, 2, 3), false),
        igmp_query(0x85, Ipv4Addr::UNSPECIFIED, true),
        mld_query(1000, Ipv6Addr::UNSPECIFIED, false),
        mld_query(0x9000, group, true),
    ]
}

/// Computes the checksums of a frame anew, as far as its headers lead to them.
pub(crate) fn put_checksums_right(frame: &mut [u8]) {
    let kind = frame.get(12..14).map(|kind| [kind[0], kind[1]]);
    match kind {
        Some([0x08, 0x00]) if frame.len() >= 34 => {
            let header = usize::from(frame[14] & 0xF) * 4;
            let length = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
            let Some(packet) = frame.get_mut(14..14 + length) else {
                return;
            };
            if header < 20 || header > packet.len() {
                return;
            }
            let is_checked = [ICMPV4, IGMP].contains(&packet[9]);
            let (header, message) = packet.split_at_mut(header);
            header[10..12].fill(0);
            let sum = Checksum::new().bytes(header).finish();
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            if is_checked && message.len() >= 4 {
                message[2..4].fill(0);
                let sum = Checksum::new().bytes(message).finish();
                message[2..4].copy_from_slice(&sum.to_be_bytes());
            }
        }
        Some([0x86, 0xDD]) if frame.len() >= 58 => {
            let length = usize::from(u16::from_be_bytes([frame[18], frame[19]]));
            let source = Ipv6Addr::from(<[u8; 16]>::try_from(&frame[22..38]).unwrap());
            let to = Ipv6Addr::from(<[u8; 16]>::try_from(&frame[38..54]).unwrap());
            let skip = match frame[20] {
                0 => usize::from(frame[55]) * 8 + 8,
                _ => 0,
            };
            let Some(message) = frame.get_mut(54 + skip..54 + length.max(skip)) else {
                return;
            };
            if message.len() >= 4 {
                message[2..4].fill(0);
                let sum = Checksum::new()
                    .pseudo_header(source, to, ICMPV6, message.len())
                    .bytes(message)
                    .finish();
                message[2..4].copy_from_slice(&sum.to_be_bytes());
            }
        }
        _ => {}
    }
}
