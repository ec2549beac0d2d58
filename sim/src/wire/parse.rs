//! Frame parser, with a typed error for each malformed field.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::build::udp_sum;
use super::headers::{Aeth, Bth, Deth, Headers, Reth};
use super::path::{Addresses, Path, ROCE_UDP_PORT};
use super::{Opcode, checksum, icrc};

/// Why bytes are not a RoCEv2 packet. A receiver drops such a frame; only the ICRC case hints at
/// damage on the wire.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The frame ends inside the named header.
    #[error("the frame ends inside the {0}")]
    Truncated(&'static str),
    /// Neither IPv4 nor IPv6.
    #[error("EtherType {0:#06x} is not IP")]
    EtherType(u16),
    /// The IP version field contradicts the EtherType, or the IPv4 header has options, which RoCEv2
    /// forbids.
    #[error("IP header starts with {0:#04x}; expected IPv4 without options or IPv6")]
    IpVersion(u8),
    /// The IPv4 header checksum is wrong.
    #[error("IPv4 header checksum is wrong")]
    IpChecksum,
    /// An IPv4 fragment; RoCEv2 never fragments.
    #[error("IPv4 fragment")]
    Fragment,
    /// Not UDP, or an IPv6 extension header.
    #[error("IP protocol {0} is not UDP")]
    NotUdp(u8),
    /// The length fields of IP and UDP contradict each other or the frame.
    #[error("IP or UDP length contradicts the frame")]
    Length,
    /// UDP, but not to the RoCEv2 port.
    #[error("UDP port {0} is not RoCEv2's")]
    Port(u16),
    /// The UDP checksum is present and wrong.
    #[error("UDP checksum is wrong")]
    UdpChecksum,
    /// The ICRC is wrong.
    #[error("ICRC is {found:02x?}, computed {computed:02x?}")]
    Icrc {
        /// Bytes in the frame.
        found: [u8; 4],
        /// Bytes that the frame should have.
        computed: [u8; 4],
    },
    /// The pad count is larger than what follows the headers.
    #[error("pad count {0} exceeds the payload")]
    Pad(u8),
    /// Payload and pad are not a multiple of 4 bytes: the pad count does not fit the payload.
    #[error("payload and pad of {0} bytes are no multiple of 4")]
    Unpadded(usize),
}

/// A received packet; the payload points into the frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Addresses as in the frame: `src` is the sender.
    pub path: Path,
    /// Transport headers.
    pub headers: Headers,
    /// Payload without pad.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses an Ethernet frame without FCS. Bytes after the IP datagram (Ethernet padding) are
    /// ignored.
    ///
    /// Unknown opcodes are kept and get an empty set of optional headers, so that a responder can
    /// refuse them.
    ///
    /// # Errors
    /// A [`ParseError`] that names the first malformed field.
    pub fn parse(frame: &'a [u8]) -> Result<Self, ParseError> {
        let mut input = Input(frame);
        let dst_mac = input.take("Ethernet header")?;
        let src_mac = input.take("Ethernet header")?;
        let mut ether_type = u16::from_be_bytes(input.take("Ethernet header")?);
        let mut vlan = None;
        if ether_type == 0x8100 {
            vlan = Some(u16::from_be_bytes(input.take("VLAN tag")?));
            ether_type = u16::from_be_bytes(input.take("VLAN tag")?);
        }
        let ip = match ether_type {
            0x0800 => Ip::v4(input.0)?,
            0x86DD => Ip::v6(input.0)?,
            other => return Err(ParseError::EtherType(other)),
        };
        let ipv6 = matches!(ip.addresses, Addresses::V6 { .. });

        let mut input = Input(ip.payload);
        let src_port = u16::from_be_bytes(input.take("UDP header")?);
        let dst_port = u16::from_be_bytes(input.take("UDP header")?);
        let udp_len = u16::from_be_bytes(input.take("UDP header")?);
        let udp_check = u16::from_be_bytes(input.take("UDP header")?);
        if dst_port != ROCE_UDP_PORT {
            return Err(ParseError::Port(dst_port));
        }
        if usize::from(udp_len) != ip.payload.len() {
            return Err(ParseError::Length);
        }
        // IPv4 senders leave the checksum out. If one is set, the ICRC covers the same bytes in any
        // case; it masks only this field.
        if ipv6 && udp_check != 0 && checksum::fold(udp_sum(ip.datagram)) != 0xFFFF {
            return Err(ParseError::UdpChecksum);
        }

        let (covered, &found) = ip
            .datagram
            .split_last_chunk()
            .ok_or(ParseError::Truncated("ICRC"))?;
        let computed = icrc::icrc(covered, ipv6).ok_or(ParseError::Truncated("BTH"))?;
        if found != computed {
            return Err(ParseError::Icrc { found, computed });
        }
        let (transport, _) = input
            .0
            .split_last_chunk::<{ icrc::LEN }>()
            .ok_or(ParseError::Truncated("ICRC"))?;
        let (headers, payload) = transport_headers(transport)?;
        let path = Path {
            src_mac,
            dst_mac,
            vlan,
            ip: ip.addresses,
            tos: ip.tos,
            ttl: ip.ttl,
            flow_label: ip.flow_label,
            src_port,
            dst_port,
        };
        Ok(Self {
            path,
            headers,
            payload,
        })
    }
}

impl<'a> Packet<'a> {
    /// The packet in `behind`, from after the UDP header up to the end of its ICRC, if it is well
    /// formed. `lower` is the ICRC over everything before it, `effect` the [`icrc::mask_effect`].
    pub(super) fn behind(
        path: &Path,
        lower: &icrc::Hasher,
        effect: u32,
        behind: &'a [u8],
    ) -> Option<Self> {
        let (transport, found) = behind.split_last_chunk()?;
        if icrc::upper_of_len(lower, effect, transport)? != *found {
            return None;
        }
        let (headers, payload) = transport_headers(transport).ok()?;
        Some(Self {
            path: *path,
            headers,
            payload,
        })
    }
}

fn transport_headers(bytes: &[u8]) -> Result<(Headers, &[u8]), ParseError> {
    let mut input = Input(bytes);
    let (bth, pad) = Bth::decode(input.take("BTH")?);
    let opcode: Opcode = bth.opcode;
    let mut headers = Headers::new(bth);
    if opcode.headers().is_empty() {
        // The common case.
        return Ok((headers, unpadded(input.0, pad)?));
    }
    if opcode.has_deth() {
        headers.deth = Some(Deth::decode(input.take("DETH")?));
    }
    if opcode.has_reth() {
        headers.reth = Some(Reth::decode(input.take("RETH")?));
    }
    if opcode.has_aeth() {
        headers.aeth = Some(Aeth::decode(input.take("AETH")?));
    }
    if opcode.has_immediate() {
        headers.immediate = Some(u32::from_be_bytes(input.take("immediate data")?));
    }
    if opcode.has_ieth() {
        headers.invalidate = Some(u32::from_be_bytes(input.take("IETH")?));
    }
    let rest = input
        .0
        .get(opcode.atomic_bytes()..)
        .ok_or(ParseError::Truncated("atomic header"))?;
    Ok((headers, unpadded(rest, pad)?))
}

/// The payload without its pad.
fn unpadded(padded: &[u8], pad: u8) -> Result<&[u8], ParseError> {
    let len = padded.len();
    if !len.is_multiple_of(4) {
        return Err(ParseError::Unpadded(len));
    }
    let len = len
        .checked_sub(usize::from(pad))
        .ok_or(ParseError::Pad(pad))?;
    Ok(padded.get(..len).unwrap_or_default())
}

/// What the two IP versions have in common.
struct Ip<'a> {
    addresses: Addresses,
    tos: u8,
    ttl: u8,
    flow_label: u32,
    /// IP header to the end of the ICRC.
    datagram: &'a [u8],
    /// UDP header to the end of the ICRC.
    payload: &'a [u8],
}

impl<'a> Ip<'a> {
    fn v4(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut input = Input(bytes);
        let header: [u8; 20] = input.take("IPv4 header")?;
        let [
            version,
            tos,
            l0,
            l1,
            _,
            _,
            f0,
            f1,
            ttl,
            protocol,
            _,
            _,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ] = header;
        if version != 0x45 {
            return Err(ParseError::IpVersion(version));
        }
        if checksum::fold(checksum::add(0, &header)) != 0xFFFF {
            return Err(ParseError::IpChecksum);
        }
        // More-fragments flag or a fragment offset.
        if u16::from_be_bytes([f0, f1]) & 0x3FFF != 0 {
            return Err(ParseError::Fragment);
        }
        if protocol != 17 {
            return Err(ParseError::NotUdp(protocol));
        }
        let total = usize::from(u16::from_be_bytes([l0, l1]));
        let datagram = bytes.get(..total).ok_or(ParseError::Length)?;
        Ok(Self {
            addresses: Addresses::V4 {
                src: Ipv4Addr::new(s0, s1, s2, s3),
                dst: Ipv4Addr::new(d0, d1, d2, d3),
            },
            tos,
            ttl,
            flow_label: 0,
            datagram,
            payload: datagram.get(20..).ok_or(ParseError::Length)?,
        })
    }

    fn v6(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut input = Input(bytes);
        let word = u32::from_be_bytes(input.take("IPv6 header")?);
        let len = usize::from(u16::from_be_bytes(input.take("IPv6 header")?));
        let [protocol, ttl] = input.take("IPv6 header")?;
        let src = Ipv6Addr::from(input.take::<16>("IPv6 header")?);
        let dst = Ipv6Addr::from(input.take::<16>("IPv6 header")?);
        if word >> 28 != 6 {
            let [first, ..] = word.to_be_bytes();
            return Err(ParseError::IpVersion(first));
        }
        if protocol != 17 {
            return Err(ParseError::NotUdp(protocol));
        }
        Ok(Self {
            addresses: Addresses::V6 { src, dst },
            // Eight bits between the version and the flow label.
            tos: (word >> 20) as u8,
            ttl,
            flow_label: word & 0xF_FFFF,
            datagram: bytes.get(..40 + len).ok_or(ParseError::Length)?,
            payload: input.0.get(..len).ok_or(ParseError::Length)?,
        })
    }
}

/// The bytes that are still to be parsed.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self, header: &'static str) -> Result<[u8; N], ParseError> {
        let (chunk, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(ParseError::Truncated(header))?;
        self.0 = rest;
        Ok(*chunk)
    }
}
