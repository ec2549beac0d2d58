use netlink_packet_core::{Emitable, Parseable};
use netlink_packet_route::link::{Inet6DevConf, VlanProtocol};

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn of_address(flags: AddressFlags, attributes: &[AddressAttribute]) -> Option<IpAddr> {
    let mut message = AddressMessage::default();
    message.header.index = 4;
    message.attributes = attributes.to_vec();
    message.attributes.push(AddressAttribute::Flags(flags));
    let address = address(&RouteNetlinkMessage::NewAddress(message))?;
    assert_eq!(address.index, 4);
    Some(address.ip)
}

#[test]
fn an_address_is_ours_and_no_duplicate() {
    let own = [
        AddressAttribute::Address(ip("192.0.2.2")),
        AddressAttribute::Local(ip("192.0.2.1")),
    ];
    let local = of_address(AddressFlags::Permanent, &own);
    assert_eq!(local, Some(ip("192.0.2.1")), "not the peer's");
    let own = [AddressAttribute::Address(ip("fd00::1"))];
    for (flags, is_ours) in [
        (AddressFlags::Permanent, true),
        (AddressFlags::Tentative, false),
        (AddressFlags::Tentative | AddressFlags::Optimistic, true),
        (AddressFlags::Permanent | AddressFlags::Dadfailed, false),
        (AddressFlags::Deprecated, true),
    ] {
        let found = of_address(flags, &own);
        assert_eq!(found, is_ours.then_some(ip("fd00::1")), "{flags:?}");
    }
    assert_eq!(of_address(AddressFlags::Permanent, &[]), None);
    // Old kernels report it only in the header.
    let mut message = AddressMessage::default();
    message.header.flags = AddressHeaderFlags::Tentative;
    message.attributes = own.to_vec();
    assert_eq!(address(&RouteNetlinkMessage::NewAddress(message)), None);
}

#[test]
fn a_vlan_is_on_an_interface() {
    let link = |infos: Vec<LinkInfo>| {
        let mut config = Inet6DevConf::default();
        config.hoplimit = 33;
        let mut message = LinkMessage::default();
        message.header.index = 9;
        message.attributes = vec![
            LinkAttribute::IfName("lab0.5".to_owned()),
            LinkAttribute::Link(4),
            LinkAttribute::Mtu(1496),
            LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![AfSpecInet6::DevConf(
                config,
            )])]),
            LinkAttribute::Address(vec![2, 0, 0, 0, 0, 1]),
            LinkAttribute::LinkInfo(infos),
        ];
        // As the kernel sends it.
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        let message = LinkMessage::parse(&bytes[..]).unwrap();
        interface(&RouteNetlinkMessage::NewLink(message)).unwrap()
    };
    let vlan = |protocol| {
        // Packets of priority 9 get 0: that priority does not exist.
        let egress = [(2, 3), (6, 7), (9, 1)];
        let egress = egress.map(|(from, to)| VlanQosMapping::Mapping(from, to));
        let data = vec![
            InfoVlan::Id(5),
            InfoVlan::Protocol(protocol),
            InfoVlan::EgressQos(egress.to_vec()),
        ];
        vec![
            LinkInfo::Kind(InfoKind::Vlan),
            LinkInfo::Data(InfoData::Vlan(data)),
        ]
    };
    let found = link(vlan(VlanProtocol::Ieee8021Q));
    let wanted = Interface {
        index: 9,
        name: "lab0.5".to_owned(),
        mac: Some(MacAddr([2, 0, 0, 0, 0, 1])),
        below: Some(4),
        vlan: Some(5),
        egress: [0, 0, 3, 0, 0, 0, 7, 0],
        mtu: 1496,
        hop_limit: Some(33),
    };
    assert_eq!(found, wanted);
    assert_eq!(
        link(vlan(VlanProtocol::Ieee8021Ad)).vlan,
        None,
        "another tag"
    );
    assert_eq!(link(vec![LinkInfo::Kind(InfoKind::MacVlan)]).vlan, None);
}

#[test]
fn a_neighbour_is_known_or_not() {
    let of = |state: NeighbourState, mac: &[u8]| {
        let mut message = NeighbourMessage::default();
        message.header.ifindex = 4;
        message.header.state = state;
        message.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet([192, 0, 2, 2].into())),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        let known = neighbour(&RouteNetlinkMessage::NewNeighbour(message)).unwrap();
        assert_eq!((known.index, known.ip), (4, ip("192.0.2.2")));
        assert_eq!(known.is_set, state == NeighbourState::Permanent);
        (known.mac, known.has_failed)
    };
    let mac = MacAddr([2, 0, 0, 0, 0, 2]);
    assert_eq!(of(NeighbourState::Stale, &mac.0), (Some(mac), false));
    assert_eq!(of(NeighbourState::Permanent, &mac.0), (Some(mac), false));
    assert_eq!(of(NeighbourState::Failed, &mac.0), (None, true));
    assert_eq!(of(NeighbourState::Incomplete, &mac.0), (None, false));
    assert_eq!(of(NeighbourState::Reachable, &[0; 6]), (None, false));
    assert_eq!(of(NeighbourState::Reachable, &[2; 20]), (None, false));
}

#[test]
fn a_route_has_a_hop_limit_or_none() {
    let of = |metrics: Vec<RouteMetric>| {
        let mut message = RouteMessage::default();
        message.attributes = vec![RouteAttribute::Oif(4), RouteAttribute::Metrics(metrics)];
        hop_limit(&RouteNetlinkMessage::NewRoute(message))
    };
    let mtu = RouteMetric::Mtu(1400);
    assert_eq!(of(vec![mtu.clone()]), None);
    assert_eq!(of(vec![mtu, RouteMetric::Hoplimit(9)]), Some(9));
    assert_eq!(of(vec![RouteMetric::Hoplimit(0)]), None);
    assert_eq!(of(vec![RouteMetric::Hoplimit(255)]), Some(255));
}

#[test]
fn a_route_has_a_gateway_or_none() {
    let of = |attributes: &[RouteAttribute]| {
        let mut message = RouteMessage::default();
        message.attributes = attributes.to_vec();
        gateway(&RouteNetlinkMessage::NewRoute(message))
    };
    let inet = RouteAddress::Inet([192, 0, 2, 254].into());
    let destination = RouteAttribute::Destination(inet.clone());
    assert_eq!(of(std::slice::from_ref(&destination)), None);
    let found = of(&[destination, RouteAttribute::Gateway(inet)]);
    assert_eq!(found, Some(ip("192.0.2.254")));
    // An IPv4 network behind an IPv6 router.
    let via = RouteVia::Inet6("fe80::1".parse().unwrap());
    assert_eq!(of(&[RouteAttribute::Via(via)]), Some(ip("fe80::1")));
}

/// The questions, byte for byte as linux/rtnetlink.h and linux/neighbour.h define them.
#[test]
fn a_neighbour_is_used() {
    let RouteNetlinkMessage::NewNeighbour(message) = use_neighbour(4, ip("192.0.2.2")) else {
        panic!("another message");
    };
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    let mut wanted = vec![2, 0, 0, 0];
    wanted.extend(4u32.to_ne_bytes());
    // No state; NTF_USE; no type.
    wanted.extend([0, 0, 1, 0]);
    wanted.extend(8u16.to_ne_bytes());
    // NDA_DST.
    wanted.extend(1u16.to_ne_bytes());
    wanted.extend([192, 0, 2, 2]);
    assert_eq!(bytes, wanted);
}
