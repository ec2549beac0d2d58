//! The internet checksum (RFC 1071).

/// One's-complement sum of `sum` and `bytes` as big-endian 16-bit words; an odd last byte counts as
/// the high half.
pub(crate) fn add(sum: u64, bytes: &[u8]) -> u64 {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let sum = pairs
        .iter()
        .fold(sum, |sum, pair| sum + u64::from(u16::from_be_bytes(*pair)));
    odd.first()
        .map_or(sum, |&last| sum + (u64::from(last) << 8))
}

/// Folds a sum to 16 bits. A correct header, including its checksum, folds to 0xFFFF.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    // The loop has made it fit.
    sum as u16
}
