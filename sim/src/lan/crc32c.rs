//! The checksum of SCTP (RFC 9260).

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
    fn the_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }
}
