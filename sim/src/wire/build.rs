//! Builds a frame: headers first, then the payload in place, then pad, checksums and ICRC.

use super::headers::{Bth, Headers};
use super::path::{Addresses, Path};
use super::{Opcode, checksum, icrc};

/// Largest payload of a packet: the largest InfiniBand path MTU, in bytes.
pub const MAX_PAYLOAD: usize = 4096;

/// Shortest Ethernet frame without its FCS; shorter ones are filled with zeros.
pub(super) const MIN_FRAME: usize = 60;

/// Why a frame cannot be built.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The optional headers given are not those of the opcode.
    #[error("{0:?} has other headers than those given; set exactly those that the opcode asks for")]
    Headers(Opcode),
    /// The payload does not fit the largest path MTU.
    #[error("payload of {0} bytes; a packet carries at most {MAX_PAYLOAD}")]
    Payload(usize),
}

/// A frame whose payload is still to be written.
#[derive(Clone, Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    /// Offset of the IP header.
    ip: usize,
    payload: usize,
    payload_len: usize,
    ipv6: bool,
    /// The ICRC over what comes before the BTH, and where the BTH is.
    lower: Option<(u32, usize)>,
}

impl Frame {
    /// Writes all headers for a payload of `payload_len` bytes, which starts as zeros.
    ///
    /// # Errors
    /// [`BuildError::Headers`] if the headers are not those of the opcode, [`BuildError::Payload`]
    /// if the payload is longer than [`MAX_PAYLOAD`].
    pub fn new(path: &Path, headers: &Headers, payload_len: usize) -> Result<Self, BuildError> {
        let udp_len = udp_len(headers, payload_len)?;
        let ipv6 = matches!(path.ip, Addresses::V6 { .. });

        let mut bytes = Vec::with_capacity(MIN_FRAME.max(18 + 40 + udp_len));
        ethernet(&mut bytes, path, ipv6);
        let ip = bytes.len();
        match path.ip {
            Addresses::V4 { src, dst } => {
                let start = bytes.len();
                bytes.extend_from_slice(&[0x45, path.tos]);
                bytes.extend_from_slice(&((20 + udp_len) as u16).to_be_bytes());
                // Identification 0, don't fragment.
                bytes.extend_from_slice(&[0, 0, 0x40, 0, path.ttl, 17]);
                let sum = bytes.get(start..).map_or(0, |head| checksum::add(0, head));
                let sum = checksum::add(checksum::add(sum, &src.octets()), &dst.octets());
                bytes.extend_from_slice(&(!checksum::fold(sum)).to_be_bytes());
                bytes.extend_from_slice(&src.octets());
                bytes.extend_from_slice(&dst.octets());
            }
            Addresses::V6 { src, dst } => {
                let word = 6 << 28 | u32::from(path.tos) << 20 | path.flow_label & 0xF_FFFF;
                bytes.extend_from_slice(&word.to_be_bytes());
                bytes.extend_from_slice(&(udp_len as u16).to_be_bytes());
                bytes.extend_from_slice(&[17, path.ttl]);
                bytes.extend_from_slice(&src.octets());
                bytes.extend_from_slice(&dst.octets());
            }
        }
        bytes.extend_from_slice(&path.src_port.to_be_bytes());
        bytes.extend_from_slice(&path.dst_port.to_be_bytes());
        bytes.extend_from_slice(&(udp_len as u16).to_be_bytes());
        // Checksum: none over IPv4; over IPv6 it is set when the frame is sealed.
        bytes.extend_from_slice(&[0, 0]);
        Ok(Self::behind(bytes, ip, ipv6, None, headers, payload_len))
    }

    /// Appends the transport headers to what comes before them, and room for the rest.
    pub(super) fn behind(
        mut bytes: Vec<u8>,
        ip: usize,
        ipv6: bool,
        lower: Option<(u32, usize)>,
        headers: &Headers,
        payload_len: usize,
    ) -> Self {
        let pad = pad(payload_len);
        transport(&mut bytes, headers, pad as u8);
        let payload = bytes.len();
        bytes.resize(payload + payload_len + pad + icrc::LEN, 0);
        Self {
            bytes,
            ip,
            payload,
            payload_len,
            ipv6,
            lower,
        }
    }

    /// The bytes so far.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// The payload, to be filled by the caller.
    #[must_use]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.bytes
            .get_mut(self.payload..self.payload + self.payload_len)
            .unwrap_or_default()
    }

    /// Adds ICRC and checksum and returns the frame as sent on the wire (without Ethernet FCS).
    #[must_use]
    pub fn seal(mut self) -> Vec<u8> {
        let end = self.bytes.len() - icrc::LEN;
        let crc = match self.lower {
            Some((lower, bth)) => {
                let transport = self.bytes.get(bth..end);
                transport.and_then(|transport| icrc::upper(lower, transport))
            }
            None => {
                let datagram = self.bytes.get(self.ip..end);
                datagram.and_then(|datagram| icrc::icrc(datagram, self.ipv6))
            }
        };
        if let (Some(crc), Some(slot)) = (crc, self.bytes.last_chunk_mut::<{ icrc::LEN }>()) {
            *slot = crc;
        }
        if self.ipv6 {
            self.seal_udp();
        }
        if self.bytes.len() < MIN_FRAME {
            self.bytes.resize(MIN_FRAME, 0);
        }
        self.bytes
    }

    /// UDP over IPv6 must have a checksum; it covers the ICRC, which masks it.
    fn seal_udp(&mut self) {
        let Some(datagram) = self.bytes.get_mut(self.ip..) else {
            return;
        };
        let sum = checksum::fold(udp_sum(datagram));
        // A sum of zero is sent as ones: zero says "none".
        let value = if sum == 0xFFFF { 0xFFFF } else { !sum };
        if let Some(field) = datagram.get_mut(46..48) {
            field.copy_from_slice(&value.to_be_bytes());
        }
    }
}

/// Bytes that fill the payload to a multiple of four.
pub(super) const fn pad(payload_len: usize) -> usize {
    payload_len.wrapping_neg() & 3
}

/// Length of the UDP part of a packet with these headers.
///
/// # Errors
/// As [`Frame::new`].
pub(super) fn udp_len(headers: &Headers, payload_len: usize) -> Result<usize, BuildError> {
    // Atomic headers have no field in `Headers`: this device never sends them.
    if !headers.match_opcode() || headers.bth.opcode.atomic_bytes() != 0 {
        return Err(BuildError::Headers(headers.bth.opcode));
    }
    if payload_len > MAX_PAYLOAD {
        return Err(BuildError::Payload(payload_len));
    }
    // At most 8 + 60 + 4096 + 4: fits the 16-bit length fields.
    Ok(8 + headers.len() + payload_len + pad(payload_len) + icrc::LEN)
}

/// Sum of an IPv6 datagram's pseudo header and UDP part (RFC 8200).
pub(super) fn udp_sum(datagram: &[u8]) -> u64 {
    let addresses = datagram.get(8..40).unwrap_or_default();
    let udp = datagram.get(40..).unwrap_or_default();
    // The length of the pseudo header is that of the UDP part; 17 is its protocol.
    checksum::add(checksum::add(udp.len() as u64 + 17, addresses), udp)
}

fn ethernet(bytes: &mut Vec<u8>, path: &Path, ipv6: bool) {
    bytes.extend_from_slice(&path.dst_mac);
    bytes.extend_from_slice(&path.src_mac);
    if let Some(tag) = path.vlan {
        bytes.extend_from_slice(&[0x81, 0x00]);
        bytes.extend_from_slice(&tag.to_be_bytes());
    }
    bytes.extend_from_slice(if ipv6 { &[0x86, 0xDD] } else { &[0x08, 0x00] });
}

fn transport(bytes: &mut Vec<u8>, headers: &Headers, pad: u8) {
    let Headers {
        bth,
        deth,
        reth,
        aeth,
        immediate,
        invalidate,
    } = headers;
    bytes.extend_from_slice(&Bth::encode(bth, pad));
    if let Some(deth) = deth {
        bytes.extend_from_slice(&deth.encode());
    }
    if let Some(reth) = reth {
        bytes.extend_from_slice(&reth.encode());
    }
    if let Some(aeth) = aeth {
        bytes.extend_from_slice(&aeth.encode());
    }
    if let Some(immediate) = immediate {
        bytes.extend_from_slice(&immediate.to_be_bytes());
    }
    if let Some(stag) = invalidate {
        bytes.extend_from_slice(&stag.to_be_bytes());
    }
}
