//! IP addresses as numbers in words (control-path 0).

use core::net::{Ipv4Addr, Ipv6Addr};

/// Source and destination, of one family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IpPair {
    /// IPv4.
    V4 {
        /// This side.
        source: Ipv4Addr,
        /// The other side.
        destination: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// This side.
        source: Ipv6Addr,
        /// The other side.
        destination: Ipv6Addr,
    },
}

impl IpPair {
    /// Whether this is IPv4.
    #[must_use]
    pub const fn is_v4(&self) -> bool {
        matches!(self, Self::V4 { .. })
    }

    /// The source in two words, low word first; see [`v4_words`].
    pub(crate) fn source_words(&self) -> [u64; 2] {
        match *self {
            Self::V4 { source, .. } => v4_words(source),
            Self::V6 { source, .. } => v6_words(source),
        }
    }

    /// The destination in two words, low word first.
    pub(crate) fn destination_words(&self) -> [u64; 2] {
        match *self {
            Self::V4 { destination, .. } => v4_words(destination),
            Self::V6 { destination, .. } => v6_words(destination),
        }
    }
}

/// An IPv4 address in two words: bits \[31:0\] of the low word.
pub(crate) fn v4_words(address: Ipv4Addr) -> [u64; 2] {
    [u64::from(u32::from(address)), 0]
}

/// An IPv6 address in two words: A2, A3 in the low word, A0, A1 in the high one, each pair with
/// its first number in bits \[63:32\].
pub(crate) fn v6_words(address: Ipv6Addr) -> [u64; 2] {
    let number = u128::from(address);
    [number as u64, (number >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use e810_types::MacAddr;

    #[test]
    fn numbers_have_the_first_octet_on_top() {
        let mac = MacAddr([0x01, 0x23, 0x45, 0x67, 0x89, 0xab]);
        assert_eq!(mac.to_u64(), 0x0123_4567_89ab);
        let v6 = Ipv6Addr::new(0xfe80, 0, 1, 2, 3, 4, 5, 6);
        assert_eq!(v6_words(v6), [0x0003_0004_0005_0006, 0xfe80_0000_0001_0002]);
        assert_eq!(v4_words(Ipv4Addr::new(192, 168, 0, 1)), [0xC0A8_0001, 0]);
    }
}
