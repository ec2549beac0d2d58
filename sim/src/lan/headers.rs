//! The packet parser's results: packet type, headers, checksums of a frame (lan-path 11).

use super::crc32c::crc32c;
use crate::wire::checksum::{add, fold};

/// Ethernet types.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
const ARP: u16 = 0x0806;
const PTP: u16 = 0x88F7;
const LLDP: u16 = 0x88CC;
/// Types of VLAN tags.
pub(super) const TAGS: [u16; 3] = [0x8100, 0x88A8, 0x9100];
/// UDP port of RoCEv2.
const ROCE_PORT: u16 = 4791;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Tags that the parser skips.
const MOST_TAGS: usize = 2;
/// IPv6 extension headers that the parser skips: hop-by-hop, routing, destination.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
const FRAGMENT: u8 = 44;

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u16::from_be_bytes)
}

/// Types of packets with addresses: IPv4 and IPv6, fragments, others, UDP, TCP, SCTP, ICMP.
pub(crate) const PACKET_TYPES: [u16; 12] = [22, 23, 24, 26, 27, 28, 88, 89, 90, 92, 93, 94];

/// An IP packet inside a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ip<'a> {
    /// From the IP header to the end given by its length.
    bytes: &'a [u8],
    is_v6: bool,
    /// Offset of the transport header.
    transport: usize,
    protocol: u8,
    is_fragment: bool,
    has_extensions: bool,
}

/// The parser's result for a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Parsed {
    /// Packet type.
    pub(super) ptype: u16,
    /// Headers were recognised and their checksums checked.
    pub(super) is_checked: bool,
    /// The checksum of the IPv4 header is wrong.
    pub(super) is_ip_wrong: bool,
    /// The checksum of TCP, UDP or SCTP is wrong.
    pub(super) is_l4_wrong: bool,
    /// IPv6 with extension headers.
    pub(super) has_extensions: bool,
}

/// The Ethernet type behind all tags, and the offset of what it describes.
fn payload(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = 12;
    for _ in 0..=MOST_TAGS {
        let kind = be16(frame, at)?;
        if !TAGS.contains(&kind) {
            return Some((kind, at + 2));
        }
        at += 4;
    }
    None
}

impl<'a> Ip<'a> {
    fn of(frame: &'a [u8], kind: u16, at: usize) -> Option<Self> {
        let bytes = frame.get(at..)?;
        match kind {
            IPV4 => Self::v4(bytes),
            IPV6 => Self::v6(bytes),
            _ => None,
        }
    }

    fn v4(bytes: &'a [u8]) -> Option<Self> {
        let first = *bytes.first()?;
        let header = usize::from(first & 0xF) * 4;
        let len = usize::from(be16(bytes, 2)?);
        if first >> 4 != 4 || header < 20 || len < header {
            return None;
        }
        // More fragments, or an offset.
        let is_fragment = be16(bytes, 6)? & 0x3FFF != 0;
        Some(Self {
            bytes: bytes.get(..len)?,
            is_v6: false,
            transport: header,
            protocol: *bytes.get(9)?,
            is_fragment,
            has_extensions: false,
        })
    }

    fn v6(bytes: &'a [u8]) -> Option<Self> {
        if bytes.first()? >> 4 != 6 {
            return None;
        }
        let len = 40 + usize::from(be16(bytes, 4)?);
        let bytes = bytes.get(..len)?;
        let (mut protocol, mut at) = (*bytes.get(6)?, 40);
        let mut has_extensions = false;
        while EXTENSIONS.contains(&protocol) {
            has_extensions = true;
            let next = *bytes.get(at)?;
            at += 8 * (1 + usize::from(*bytes.get(at + 1)?));
            protocol = next;
        }
        Some(Self {
            bytes,
            is_v6: true,
            transport: at,
            protocol,
            is_fragment: protocol == FRAGMENT,
            has_extensions,
        })
    }

    fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.transport..).unwrap_or_default()
    }

    fn ptype(&self) -> u16 {
        let base = if self.is_v6 { 88 } else { 22 };
        base + match self.protocol {
            _ if self.is_fragment => 0,
            UDP => 2,
            TCP => 4,
            SCTP => 5,
            ICMP if !self.is_v6 => 6,
            ICMPV6 if self.is_v6 => 6,
            _ => 1,
        }
    }

    /// Sum of the pseudo header, without the length.
    fn pseudo(&self) -> u64 {
        let addresses = if self.is_v6 { 8..40 } else { 12..20 };
        let addresses = self.bytes.get(addresses).unwrap_or_default();
        add(self.protocol.into(), addresses)
    }

    fn is_header_right(&self) -> bool {
        self.is_v6 || {
            let header = self.bytes.get(..self.transport).unwrap_or_default();
            fold(add(0, header)) == 0xFFFF
        }
    }

    /// Whether the transport checksum is right; `None` when there is none to check.
    fn is_transport_right(&self) -> Option<bool> {
        let payload = self.payload();
        let sum = || fold(add(self.pseudo() + payload.len() as u64, payload)) == 0xFFFF;
        match self.protocol {
            _ if self.is_fragment => None,
            TCP if payload.len() >= 20 => Some(sum()),
            // No checksum over IPv4.
            UDP if payload.len() >= 8 => Some(be16(payload, 6) == Some(0) && !self.is_v6 || sum()),
            SCTP if payload.len() >= 12 => {
                let mut copy = payload.to_vec();
                let field = copy.get_mut(8..12)?;
                let sent: [u8; 4] = (&*field).try_into().ok()?;
                field.fill(0);
                Some(crc32c(&copy).to_le_bytes() == sent)
            }
            _ => None,
        }
    }
}

/// The fields that the packets of a flow share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Flow {
    /// IP addresses.
    pub(super) source: Vec<u8>,
    pub(super) destination: Vec<u8>,
    /// Ports of source and destination.
    pub(super) ports: Option<[[u8; 2]; 2]>,
}

/// The flow that a frame belongs to; `None` without an IP packet.
pub(super) fn flow(frame: &[u8]) -> Option<Flow> {
    let (kind, at) = payload(frame)?;
    let ip = Ip::of(frame, kind, at)?;
    let (source, destination) = if ip.is_v6 {
        (8..24, 24..40)
    } else {
        (12..16, 16..20)
    };
    let has_ports = !ip.is_fragment && [TCP, UDP, SCTP].contains(&ip.protocol);
    let ports = ip.payload().first_chunk().filter(|_| has_ports);
    Some(Flow {
        source: ip.bytes.get(source)?.to_vec(),
        destination: ip.bytes.get(destination)?.to_vec(),
        ports: ports.map(|[a, b, c, d]: &[u8; 4]| [[*a, *b], [*c, *d]]),
    })
}

/// What the parser finds in `frame`.
pub(super) fn parse(frame: &[u8]) -> Parsed {
    let Some((kind, at)) = payload(frame) else {
        return Parsed {
            ptype: 1,
            ..Parsed::default()
        };
    };
    let Some(ip) = Ip::of(frame, kind, at) else {
        let ptype = match kind {
            ARP => 11,
            PTP => 2,
            LLDP => 6,
            _ => 1,
        };
        return Parsed {
            ptype,
            ..Parsed::default()
        };
    };
    let transport = ip.is_transport_right();
    Parsed {
        ptype: ip.ptype(),
        is_checked: transport.is_some(),
        is_ip_wrong: !ip.is_header_right(),
        is_l4_wrong: transport == Some(false),
        has_extensions: ip.has_extensions,
    }
}

/// Whether a frame is for the RDMA engine if its filter is open: RoCEv2 in a packet that is not a
/// fragment (lan-path 14).
pub(crate) fn is_roce(frame: &[u8]) -> bool {
    let port = || {
        let (kind, at) = payload(frame)?;
        // The engine checks the lengths.
        let bytes = frame.get(at..)?;
        let (udp, protocol, offset) = match kind {
            IPV4 => {
                let header = usize::from(bytes.first()? & 0xF) * 4;
                (header, *bytes.get(9)?, be16(bytes, 6)? & 0x3FFF)
            }
            IPV6 => (40, *bytes.get(6)?, 0),
            _ => return None,
        };
        (protocol == UDP && offset == 0).then(|| be16(bytes, udp + 2))?
    };
    port() == Some(ROCE_PORT)
}
