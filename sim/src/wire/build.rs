//! Builds a frame: headers first, then the payload in place, then pad, checksums and ICRC.

use super::headers::{Bth, Headers};
use super::path::{Addresses, Path};
use super::{Opcode, checksum, icrc};

/// Largest payload of a packet: the largest InfiniBand path MTU, in bytes.
pub const MAX_PAYLOAD: usize = 4096;

/// Shortest Ethernet frame without its FCS; shorter ones are padded with zeros.
pub(super) const MIN_FRAME: usize = 60;

/// Why a frame cannot be built.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The optional headers do not match the opcode.
    #[error("{0:?} has other headers than those given; set exactly those that the opcode asks for")]
    Headers(Opcode),
    /// The payload does not fit the largest path MTU.
    #[error("payload of {0} bytes; a packet carries at most {MAX_PAYLOAD}")]
    Payload(usize),
}

/// A frame whose payload is still to be written.
#[derive(Clone, Debug)]
pub struct Frame {
    pub(super) bytes: Vec<u8>,
    /// Offset of the IP header.
    pub(super) ip: usize,
    pub(super) payload: usize,
    pub(super) payload_len: usize,
    pub(super) ipv6: bool,
    pub(super) known: Option<Known>,
}

/// The known parts of the ICRC before the frame is sealed.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The CRC over the bytes before the BTH.
    pub(super) lower: icrc::Hasher,
    /// See [`icrc::mask_effect`].
    pub(super) effect: u32,
    /// Offset of the BTH.
    pub(super) bth: usize,
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
        let bth = bytes.len();
        // Without the UDP header, which is already counted.
        bytes.resize(bth + udp_len - 8, 0);
        let frame = Self {
            bytes,
            ip,
            payload: 0,
            payload_len,
            ipv6,
            known: None,
        };
        Ok(frame.behind(bth, headers))
    }

    /// Writes the transport headers, at `bth`, and the pad.
    pub(super) fn behind(mut self, bth: usize, headers: &Headers) -> Self {
        let pad = pad(self.payload_len);
        let rest = self.bytes.get_mut(bth..).unwrap_or_default();
        let len = rest.len();
        let behind = transport(rest, headers, pad as u8);
        self.payload = bth + len - behind.len();
        if let Some(pad) = behind.get_mut(self.payload_len..self.payload_len + pad) {
            pad.fill(0);
        }
        self
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
        let crc = match &self.known {
            Some(Known { lower, effect, bth }) => {
                let transport = self.bytes.get(*bth..end);
                transport.and_then(|transport| icrc::upper_of_len(lower, *effect, transport))
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
        // A sum of zero is sent as all-ones: zero means "none".
        let value = if sum == 0xFFFF { 0xFFFF } else { !sum };
        if let Some(field) = datagram.get_mut(46..48) {
            field.copy_from_slice(&value.to_be_bytes());
        }
    }
}

/// Bytes that pad the payload to a multiple of four.
pub(super) const fn pad(payload_len: usize) -> usize {
    payload_len.wrapping_neg() & 3
}

/// Length of the UDP part of a packet with these headers.
///
/// # Errors
/// As [`Frame::new`].
pub(super) fn udp_len(headers: &Headers, payload_len: usize) -> Result<usize, BuildError> {
    // Atomic headers have no field in `Headers`: this device never sends them.
    if headers.bth.opcode.headers() != headers.set() {
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

/// Writes the transport headers to the start of `room`; returns the rest of `room`.
fn transport<'a>(room: &'a mut [u8], headers: &Headers, pad: u8) -> &'a mut [u8] {
    let Headers {
        bth,
        deth,
        reth,
        aeth,
        immediate,
        invalidate,
    } = headers;
    let mut room = put(room, Bth::encode(bth, pad));
    if let Some(deth) = deth {
        room = put(room, deth.encode());
    }
    if let Some(reth) = reth {
        room = put(room, reth.encode());
    }
    if let Some(aeth) = aeth {
        room = put(room, aeth.encode());
    }
    if let Some(immediate) = immediate {
        room = put(room, immediate.to_be_bytes());
    }
    if let Some(stag) = invalidate {
        room = put(room, stag.to_be_bytes());
    }
    room
}

fn put<const N: usize>(room: &mut [u8], header: [u8; N]) -> &mut [u8] {
    match room.split_first_chunk_mut() {
        Some((place, rest)) => {
            *place = header;
            rest
        }
        // There is room for the headers of the opcode.
        None => &mut [],
    }
}
