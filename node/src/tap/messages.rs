//! Questions to the kernel's network stack, and the contents of its messages.

use std::net::IpAddr;

use e810::MacAddr;
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage,
};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, InfoData, InfoKind, InfoVlan, LinkAttribute, LinkFlags, LinkInfo,
    LinkMessage, VlanQosMapping,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::address::OwnAddress;

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Interface {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) mac: Option<MacAddr>,
    /// For a VLAN's interface, the interface below.
    pub(super) below: Option<u32>,
    /// Its VLAN, if the tag has the TPID 0x8100.
    pub(super) vlan: Option<u16>,
    /// The priority in the tag of a VLAN's packets, by their priority without a tag.
    pub(super) egress: [u8; 8],
    /// Bytes of the longest IP packet.
    pub(super) mtu: u32,
    /// Hop limit of IPv6 packets, if the interface has IPv6.
    pub(super) hop_limit: Option<u8>,
}

/// A usable address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Address {
    pub(super) index: u32,
    pub(super) ip: IpAddr,
}

/// What the kernel knows of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Known {
    pub(super) index: u32,
    pub(super) ip: IpAddr,
    /// Its Ethernet address, as far as that is known.
    pub(super) mac: Option<MacAddr>,
    /// It has not answered.
    pub(super) has_failed: bool,
    /// It was set explicitly, and the kernel asks nobody.
    pub(super) is_set: bool,
}

const fn family(ip: IpAddr) -> AddressFamily {
    match ip {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

/// Asks for one interface.
pub(super) fn get_link(index: u32) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    RouteNetlinkMessage::GetLink(message)
}

/// Asks for all interfaces.
pub(super) fn get_links() -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetLink(LinkMessage::default())
}

/// Sets an interface's MAC address and MTU.
pub(super) fn set_port(index: u32, mac: MacAddr, mtu: u16) -> RouteNetlinkMessage {
    let attributes = [
        LinkAttribute::Address(mac.0.to_vec()),
        LinkAttribute::Mtu(mtu.into()),
    ];
    set_link(index, attributes.to_vec(), LinkFlags::empty())
}

/// Switches an interface on.
pub(super) fn set_up(index: u32) -> RouteNetlinkMessage {
    set_link(index, Vec::new(), LinkFlags::Up)
}

/// Sets whether an interface has a carrier.
pub(super) fn set_carrier(index: u32, is_on: bool) -> RouteNetlinkMessage {
    let carrier = LinkAttribute::Carrier(is_on.into());
    set_link(index, vec![carrier], LinkFlags::empty())
}

fn set_link(index: u32, attributes: Vec<LinkAttribute>, flags: LinkFlags) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags = flags;
    message.header.change_mask = flags;
    message.attributes = attributes;
    RouteNetlinkMessage::SetLink(message)
}

/// Asks for all addresses.
pub(super) fn get_addresses() -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetAddress(AddressMessage::default())
}

/// Gives an interface an address; without a network, only the address itself, as `ip address add`
/// does.
pub(super) fn add_address(index: u32, own: &OwnAddress) -> RouteNetlinkMessage {
    RouteNetlinkMessage::NewAddress(address_message(index, own))
}

/// Removes the address.
pub(super) fn delete_address(index: u32, own: &OwnAddress) -> RouteNetlinkMessage {
    RouteNetlinkMessage::DelAddress(address_message(index, own))
}

fn address_message(index: u32, own: &OwnAddress) -> AddressMessage {
    let alone = if own.ip.is_ipv4() { 32 } else { 128 };
    let mut message = AddressMessage::default();
    message.header.family = family(own.ip);
    message.header.prefix_len = own.length.unwrap_or(alone);
    message.header.index = index;
    message.attributes = vec![
        AddressAttribute::Local(own.ip),
        AddressAttribute::Address(own.ip),
    ];
    message
}

/// Asks for all neighbours.
pub(super) fn get_neighbours() -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default())
}

/// Makes the kernel find a neighbour, or confirm one, as a packet to it would.
pub(super) fn use_neighbour(index: u32, ip: IpAddr) -> RouteNetlinkMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = family(ip);
    message.header.ifindex = index;
    message.header.state = NeighbourState::None;
    message.header.flags = NeighbourFlags::Use;
    let destination = match ip {
        IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
        IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
    };
    message.attributes = vec![NeighbourAttribute::Destination(destination)];
    RouteNetlinkMessage::NewNeighbour(message)
}

/// Asks for the route to a destination through an interface. `matching` asks for the entry of the
/// table; otherwise Linux takes every IPv4 address to be on the link of an interface that has no
/// route to it.
pub(super) fn get_route(index: u32, ip: IpAddr, matching: bool) -> RouteNetlinkMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(ip);
    message.header.destination_prefix_length = if ip.is_ipv4() { 32 } else { 128 };
    if matching {
        message.header.flags = RouteFlags::FibMatch;
    }
    message.attributes = vec![
        RouteAttribute::Destination(RouteAddress::from(ip)),
        RouteAttribute::Oif(index),
    ];
    RouteNetlinkMessage::GetRoute(message)
}

/// The gateway that a route names, if there is one.
pub(super) fn gateway(message: &RouteNetlinkMessage) -> Option<IpAddr> {
    let RouteNetlinkMessage::NewRoute(route) = message else {
        return None;
    };
    route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Gateway(RouteAddress::Inet(v4))
            | RouteAttribute::Via(RouteVia::Inet(v4)) => Some((*v4).into()),
            RouteAttribute::Gateway(RouteAddress::Inet6(v6))
            | RouteAttribute::Via(RouteVia::Inet6(v6)) => Some((*v6).into()),
            _ => None,
        })
}

/// The route's own hop limit, if it has one.
pub(super) fn hop_limit(message: &RouteNetlinkMessage) -> Option<u8> {
    let RouteNetlinkMessage::NewRoute(route) = message else {
        return None;
    };
    let metrics = route
        .attributes
        .iter()
        .filter_map(|attribute| match attribute {
            RouteAttribute::Metrics(metrics) => Some(metrics),
            _ => None,
        });
    let limit = metrics.flatten().find_map(|metric| match metric {
        RouteMetric::Hoplimit(limit) => Some(*limit),
        _ => None,
    })?;
    // 0 means none; the kernel accepts 255 at most.
    u8::try_from(limit).ok().filter(|limit| *limit != 0)
}

/// The interface in an answer.
pub(super) fn interface(message: &RouteNetlinkMessage) -> Option<Interface> {
    let RouteNetlinkMessage::NewLink(link) = message else {
        return None;
    };
    let mut found = Interface {
        index: link.header.index,
        ..Interface::default()
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => found.name.clone_from(name),
            LinkAttribute::Address(mac) => found.mac = mac_of(mac),
            LinkAttribute::Link(below) => found.below = Some(*below),
            LinkAttribute::Mtu(mtu) => found.mtu = *mtu,
            LinkAttribute::AfSpecUnspec(families) => found.hop_limit = hop_limit_of(families),
            LinkAttribute::LinkInfo(infos) => {
                if let Some((id, egress)) = vlan_of(infos) {
                    found.vlan = Some(id);
                    found.egress = egress;
                }
            }
            _ => {}
        }
    }
    Some(found)
}

fn hop_limit_of(families: &[AfSpecUnspec]) -> Option<u8> {
    let v6 = families.iter().find_map(|family| match family {
        AfSpecUnspec::Inet6(v6) => Some(v6),
        _ => None,
    })?;
    v6.iter().find_map(|part| match part {
        AfSpecInet6::DevConf(config) => u8::try_from(config.hoplimit).ok(),
        _ => None,
    })
}

fn vlan_of(infos: &[LinkInfo]) -> Option<(u16, [u8; 8])> {
    if !infos.contains(&LinkInfo::Kind(InfoKind::Vlan)) {
        return None;
    }
    let data = infos.iter().find_map(|info| match info {
        LinkInfo::Data(InfoData::Vlan(data)) => Some(data),
        _ => None,
    })?;
    let customer = netlink_packet_route::link::VlanProtocol::Ieee8021Q;
    let is_other = |info: &InfoVlan| matches!(info, InfoVlan::Protocol(tpid) if *tpid != customer);
    if data.iter().any(is_other) {
        return None;
    }
    let id = data.iter().find_map(|info| match info {
        InfoVlan::Id(id) => Some(*id),
        _ => None,
    })?;
    let mappings = data.iter().filter_map(|info| match info {
        InfoVlan::EgressQos(mappings) => Some(mappings),
        _ => None,
    });
    // What is not in the map has priority 0.
    let mut egress = [0; 8];
    for mapping in mappings.flatten() {
        if let VlanQosMapping::Mapping(from, to) = mapping
            && let Some(priority) = egress.get_mut(*from as usize)
        {
            *priority = (to & 7) as u8;
        }
    }
    Some((id, egress))
}

fn mac_of(bytes: &[u8]) -> Option<MacAddr> {
    bytes.try_into().ok().map(MacAddr)
}

/// The address in an answer, if it is usable: an IPv6 address that may have a duplicate, or has
/// one, is not.
pub(super) fn address(message: &RouteNetlinkMessage) -> Option<Address> {
    let RouteNetlinkMessage::NewAddress(message) = message else {
        return None;
    };
    let early = AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed;
    // An optimistic address is in use while it is tentative (RFC 4429).
    let in_header = message.header.flags & early;
    let (mut local, mut any) = (None, None);
    let mut is_unusable = !in_header.is_empty();
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => any = Some(*ip),
            AddressAttribute::Flags(flags) => {
                let is_tentative = flags.contains(AddressFlags::Tentative)
                    && !flags.contains(AddressFlags::Optimistic);
                is_unusable = is_tentative || flags.contains(AddressFlags::Dadfailed);
            }
            _ => {}
        }
    }
    let index = message.header.index;
    // With a peer's address, `any` is the peer's.
    let ip = local.or(any)?;
    (!is_unusable).then_some(Address { index, ip })
}

/// The neighbour in an answer.
pub(super) fn neighbour(message: &RouteNetlinkMessage) -> Option<Known> {
    let RouteNetlinkMessage::NewNeighbour(message) = message else {
        return None;
    };
    let (mut ip, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => ip = Some((*v4).into()),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => ip = Some((*v6).into()),
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = mac_of(bytes),
            _ => {}
        }
    }
    let is_known = matches!(
        message.header.state,
        NeighbourState::Reachable
            | NeighbourState::Stale
            | NeighbourState::Delay
            | NeighbourState::Probe
            | NeighbourState::Permanent
            | NeighbourState::Noarp
    );
    Some(Known {
        index: message.header.ifindex,
        ip: ip?,
        mac: mac.filter(|mac| is_known && *mac != MacAddr([0; 6])),
        has_failed: message.header.state == NeighbourState::Failed,
        is_set: matches!(
            message.header.state,
            NeighbourState::Permanent | NeighbourState::Noarp
        ),
    })
}

#[cfg(test)]
mod tests;
