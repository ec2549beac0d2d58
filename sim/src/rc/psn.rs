//! Packet sequence numbers: arithmetic modulo 2^24.

/// Mask of a PSN.
const MASK: u32 = 0x00FF_FFFF;

/// `psn + count`.
pub(super) fn add(psn: u32, count: u32) -> u32 {
    psn.wrapping_add(count) & MASK
}

/// `psn - other` counted forward, 0 to 2^24 - 1.
pub(super) fn distance(psn: u32, other: u32) -> u32 {
    psn.wrapping_sub(other) & MASK
}

/// True if `psn` is before `other`, each within 2^23 of the other.
pub(super) fn before(psn: u32, other: u32) -> bool {
    distance(psn, other) >= 1 << 23
}

/// Packets of a message of `len` bytes; an empty message is one packet.
pub(super) fn packets(len: u64, mtu: u32) -> u32 {
    // Messages are at most 2^31 - 1 bytes and the MTU is at least 256.
    len.div_ceil(u64::from(mtu.max(1))).max(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_wraps_at_24_bits() {
        assert_eq!(add(0xFF_FFFF, 1), 0);
        assert_eq!(distance(1, 0xFF_FFFE), 3);
        assert!(before(0xFF_FFFF, 0));
        assert!(!before(0, 0xFF_FFFF));
        assert!(!before(5, 5));
    }

    #[test]
    fn an_empty_message_is_one_packet() {
        assert_eq!(
            [0, 1, 256, 257, 512].map(|len| packets(len, 256)),
            [1, 1, 1, 2, 2]
        );
        assert_eq!(packets(0x7FFF_FFFF, 256), 1 << 23);
    }
}
