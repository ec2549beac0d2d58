//! What the device does to make frames from a packet: checksums, segmentation, tags (lan-path 4,
//! 10).

use super::crc32c::crc32c;
use crate::wire::checksum::{add, fold};

/// Shortest frame on the wire, without FCS.
const SHORTEST: usize = 60;
/// Limits of MSS (lan-path 4.2).
const MSS: std::ops::RangeInclusive<u16> = 64..=9668;
/// Type of the tag of L2TAG1.
const INNER_TYPE: u16 = 0x8100;
/// TCP flags: those of the last segment only, those of the first only.
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// IIPT: kind of IP header, and whether the device inserts its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum IpKind {
    #[default]
    None,
    V6,
    V4,
    V4Checksum,
}

/// L4T: the protocol whose checksum the device inserts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum L4Kind {
    #[default]
    None,
    Tcp,
    Sctp,
    Udp,
}

/// What is requested for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Offload {
    pub(super) ip: IpKind,
    pub(super) l4: L4Kind,
    /// Bytes of the headers.
    pub(super) mac_len: usize,
    pub(super) ip_len: usize,
    pub(super) l4_len: usize,
    /// Tags to insert: L2TAG1; L2TAG2 with its type.
    pub(super) inner_tag: Option<u16>,
    pub(super) outer_tag: Option<(u16, u16)>,
    /// Bytes to segment, and bytes of one segment.
    pub(super) segments: Option<(u32, u16)>,
}

/// Why a packet is not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("an MSS of {0}; 64 to 9668 are possible")]
    Mss(u16),
    #[error("headers of {headers} bytes, a packet of {packet}")]
    Headers { headers: usize, packet: usize },
    #[error("segments of a packet that is neither TCP nor UDP over IP")]
    Segments,
    #[error("{asked} bytes to segment, {there} behind the headers")]
    Length { asked: u32, there: usize },
}

/// The frames made from a packet.
///
/// # Errors
/// [`Refused`]: the request and the packet do not fit together.
pub(super) fn frames(packet: &[u8], offload: &Offload) -> Result<Vec<Vec<u8>>, Refused> {
    let mut all = match offload.segments {
        Some((len, mss)) => segments(packet, offload, len, mss)?,
        None => {
            let mut frame = packet.to_vec();
            fill(&mut frame, offload, None)?;
            vec![frame]
        }
    };
    for frame in &mut all {
        tag(frame, offload);
        if frame.len() < SHORTEST {
            frame.resize(SHORTEST, 0);
        }
    }
    Ok(all)
}

fn segments(packet: &[u8], offload: &Offload, len: u32, mss: u16) -> Result<Vec<Vec<u8>>, Refused> {
    if !MSS.contains(&mss) {
        return Err(Refused::Mss(mss));
    }
    if offload.ip == IpKind::None || !matches!(offload.l4, L4Kind::Tcp | L4Kind::Udp) {
        return Err(Refused::Segments);
    }
    let headers = offload.mac_len + offload.ip_len + offload.l4_len;
    let (head, payload) = packet.split_at_checked(headers).ok_or(Refused::Headers {
        headers,
        packet: packet.len(),
    })?;
    if payload.len() != len as usize {
        let there = payload.len();
        return Err(Refused::Length { asked: len, there });
    }
    let count = payload.len().div_ceil(mss.into()).max(1);
    let mut all = Vec::with_capacity(count);
    let mut pieces = payload.chunks(mss.into());
    for index in 0..count {
        let mut frame = head.to_vec();
        frame.extend_from_slice(pieces.next().unwrap_or_default());
        let segment = SegmentPlace {
            index,
            offset: index * usize::from(mss),
            is_last: index + 1 == count,
        };
        fill(&mut frame, offload, Some(segment))?;
        all.push(frame);
    }
    Ok(all)
}

/// Position of a segment in its packet.
#[derive(Clone, Copy)]
struct SegmentPlace {
    index: usize,
    offset: usize,
    is_last: bool,
}

/// Fills in the device's part: lengths and numbers of a segment, then checksums.
fn fill(frame: &mut [u8], offload: &Offload, segment: Option<SegmentPlace>) -> Result<(), Refused> {
    if offload.ip == IpKind::None {
        return Ok(());
    }
    let wrong = Refused::Headers {
        headers: offload.mac_len + offload.ip_len + offload.l4_len,
        packet: frame.len(),
    };
    let packet = frame.get_mut(offload.mac_len..).ok_or(wrong)?;
    let is_v6 = offload.ip == IpKind::V6;
    let least = if is_v6 { 40 } else { 20 };
    if offload.ip_len < least || packet.len() < offload.ip_len {
        return Err(wrong);
    }
    let len = packet.len();
    let (ip, rest) = packet.split_at_mut_checked(offload.ip_len).ok_or(wrong)?;
    if let Some(segment) = segment {
        if is_v6 {
            put16(ip, 4, (len - 40) as u16);
        } else {
            put16(ip, 2, len as u16);
            let id = get16(ip, 4).wrapping_add(segment.index as u16);
            put16(ip, 4, id);
        }
    }
    if offload.ip == IpKind::V4Checksum {
        put16(ip, 10, 0);
        let sum = !fold(add(0, ip));
        put16(ip, 10, sum);
    }
    // Ethernet padding is not part of the packet.
    let length = usize::from(if is_v6 { get16(ip, 4) } else { get16(ip, 2) });
    let end = if is_v6 {
        (length + 40).saturating_sub(offload.ip_len)
    } else {
        length.saturating_sub(offload.ip_len)
    };
    let end = if segment.is_some() || end == 0 {
        rest.len()
    } else {
        end.min(rest.len())
    };
    let l4 = rest.get_mut(..end).ok_or(wrong)?;
    if let Some(segment) = segment {
        number(l4, offload.l4, segment);
    }
    checksum(l4, offload.l4, segment.is_some()).ok_or(wrong)
}

/// Sequence number and flags of a segment of TCP, length of a datagram of UDP.
fn number(l4: &mut [u8], kind: L4Kind, segment: SegmentPlace) {
    if kind == L4Kind::Udp {
        put16(l4, 4, l4.len() as u16);
        return;
    }
    if let Some(sequence) = l4.get_mut(4..8).and_then(|field| field.first_chunk_mut()) {
        let number = u32::from_be_bytes(*sequence).wrapping_add(segment.offset as u32);
        *sequence = number.to_be_bytes();
    }
    if let Some(flags) = l4.get_mut(13) {
        if !segment.is_last {
            *flags &= !FIN_PSH;
        }
        if segment.index != 0 {
            *flags &= !CWR;
        }
    }
}

/// The transport checksum: its field holds the sum of the pseudo header, without the length for a
/// segment.
fn checksum(l4: &mut [u8], kind: L4Kind, is_segment: bool) -> Option<()> {
    let at = match kind {
        L4Kind::None => return Some(()),
        L4Kind::Tcp => 16,
        L4Kind::Udp => 6,
        L4Kind::Sctp => {
            l4.get_mut(8..12)?.fill(0);
            let crc = crc32c(l4);
            l4.get_mut(8..12)?.copy_from_slice(&crc.to_le_bytes());
            return Some(());
        }
    };
    l4.get(at..at + 2)?;
    let length = if is_segment { l4.len() as u64 } else { 0 };
    let sum = !fold(add(length, l4));
    // Zero means "none" in UDP.
    let value = if sum == 0 && kind == L4Kind::Udp {
        0xFFFF
    } else {
        sum
    };
    put16(l4, at, value);
    Some(())
}

/// Inserts the tags after the addresses, the outer one first.
fn tag(frame: &mut Vec<u8>, offload: &Offload) {
    let inner = offload.inner_tag.map(|tag| (INNER_TYPE, tag));
    for (kind, tag) in inner.into_iter().chain(offload.outer_tag) {
        let [k0, k1] = kind.to_be_bytes();
        let [t0, t1] = tag.to_be_bytes();
        if frame.len() >= 12 {
            frame.splice(12..12, [k0, k1, t0, t1]);
        }
    }
}

fn get16(bytes: &[u8], at: usize) -> u16 {
    let field = bytes.get(at..).and_then(<[u8]>::first_chunk);
    field.copied().map_or(0, u16::from_be_bytes)
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    let field = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
    if let Some(field) = field {
        *field = value.to_be_bytes();
    }
}
