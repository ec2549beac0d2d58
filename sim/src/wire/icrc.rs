//! The invariant CRC: a CRC-32 over all fields that routers do not change.

pub(super) use crc32fast::Hasher;

/// Bytes of the ICRC on the wire.
pub(super) const LEN: usize = 4;

/// The fields that a router may change, set to ones: 28 bytes of IPv4 and UDP header.
const fn ipv4_mask() -> [u8; 28] {
    let mut mask = [0; 28];
    mask[1] = 0xFF; // TOS
    mask[8] = 0xFF; // TTL
    mask[10] = 0xFF; // header checksum
    mask[11] = 0xFF;
    mask[26] = 0xFF; // UDP checksum
    mask[27] = 0xFF;
    mask
}

/// The same for 48 bytes of IPv6 and UDP header.
const fn ipv6_mask() -> [u8; 48] {
    let mut mask = [0; 48];
    mask[0] = 0x0F; // traffic class, high half
    mask[1] = 0xFF; // traffic class, low half, and flow label
    mask[2] = 0xFF;
    mask[3] = 0xFF;
    mask[7] = 0xFF; // hop limit
    mask[46] = 0xFF; // UDP checksum
    mask[47] = 0xFF;
    mask
}

/// Copies `bytes`, with the bits of `mask` set, to `at` in `head`; returns the end of the copy.
fn put_masked<const N: usize>(
    head: &mut [u8; HEAD],
    at: usize,
    bytes: &[u8; N],
    mask: [u8; N],
) -> usize {
    let room = head.get_mut(at..).unwrap_or_default();
    for ((out, byte), mask) in room.iter_mut().zip(bytes).zip(mask) {
        *out = byte | mask;
    }
    at + N
}

/// Maximum bytes before the BTH: the replacement for InfiniBand's local route header, IPv6, UDP.
const HEAD: usize = 8 + 48;

/// The byte of the BTH that carries the congestion bits (resv8a).
const CONGESTION: usize = 4;

const BTH_MASK: [u8; 12] = [0, 0, 0, 0, 0xFF, 0, 0, 0, 0, 0, 0, 0];

/// The CRC over everything before the BTH: the bytes in place of the local route header, and the IP
/// and UDP headers at the start of `datagram`.
///
/// `None` if the datagram is too short to hold them.
pub(super) fn lower(datagram: &[u8], ipv6: bool) -> Option<Hasher> {
    let mut head = [0xFF; HEAD];
    let end = if ipv6 {
        put_masked(&mut head, 8, datagram.first_chunk::<48>()?, ipv6_mask())
    } else {
        put_masked(&mut head, 8, datagram.first_chunk::<28>()?, ipv4_mask())
    };
    let mut crc = Hasher::new();
    crc.update(head.get(..end)?);
    Some(crc)
}

/// The ICRC of a datagram. `crc` is that of the part before `transport` ([`lower`]); `transport`
/// starts at the BTH and ends before the ICRC.
pub(super) fn upper(mut crc: Hasher, transport: &[u8]) -> Option<[u8; LEN]> {
    let (bth, rest) = transport.split_first_chunk::<12>()?;
    let masked: [u8; 12] = std::array::from_fn(|index| {
        bth.get(index).copied().unwrap_or_default()
            | BTH_MASK.get(index).copied().unwrap_or_default()
    });
    crc.update(&masked);
    crc.update(rest);
    Some(crc.finalize().to_le_bytes())
}

/// How masking the byte with the congestion bits changes the CRC over a transport part of `len`
/// bytes, if the byte is 0. A CRC is linear, so the bytes around it and the start value do not
/// matter.
pub(super) fn mask_effect(len: usize) -> u32 {
    let mut transport = vec![0; len];
    let plain = crc32fast::hash(&transport);
    if let Some(byte) = transport.get_mut(CONGESTION) {
        *byte = 0xFF;
    }
    plain ^ crc32fast::hash(&transport)
}

/// Like [`upper`], for a transport part whose [`mask_effect`] is known.
pub(super) fn upper_of_len(lower: &Hasher, effect: u32, transport: &[u8]) -> Option<[u8; LEN]> {
    if transport.get(CONGESTION) != Some(&0) {
        return upper(lower.clone(), transport);
    }
    let mut crc = lower.clone();
    crc.update(transport);
    Some((crc.finalize() ^ effect).to_le_bytes())
}

/// The ICRC of `datagram`, which starts at the IP header and ends before the ICRC.
///
/// `None` if the datagram is too short to hold its IP, UDP and base transport headers.
pub(super) fn icrc(datagram: &[u8], ipv6: bool) -> Option<[u8; LEN]> {
    let transport = datagram.get(if ipv6 { 48 } else { 28 }..)?;
    upper(lower(datagram, ipv6)?, transport)
}
