//! Checksums that the device fills in and verifies: the Internet checksum (RFC 1071), and that of
//! SCTP (RFC 9260, CRC-32C).

/// Adds 16-bit words in network order to a sum; a last single byte is the high half of one.
pub(super) fn add(mut sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    for word in words {
        sum += u64::from(u16::from_be_bytes(*word));
    }
    if let [last] = rest {
        sum += u64::from(*last) << 8;
    }
    sum
}

/// A sum in 16 bits, end-around.
pub(super) fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// CRC-32C, bit by bit: SCTP is rare.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82F6_3B78;
    let crc = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 != 0 { POLYNOMIAL } else { 0 }
        })
    });
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sums() {
        // The example of RFC 1071, section 3.
        let sum = add(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!((sum, fold(sum)), (0x2_ddf0, 0xddf2));
        assert_eq!(fold(add(0, &[0xAB])), 0xAB00);
        // The check value of CRC-32C.
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }
}
