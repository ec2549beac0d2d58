//! The Internet checksum.

use core::net::Ipv6Addr;

/// A sum of 16-bit words in ones' complement (RFC 1071).
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum(u64);

impl Checksum {
    /// Of nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(0)
    }

    /// And these bytes, which begin at an even offset; a byte without a second one counts as if a
    /// zero followed.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let mut pairs = bytes.chunks_exact(2);
        for pair in &mut pairs {
            if let [high, low] = pair {
                self.0 += u64::from(u16::from_be_bytes([*high, *low]));
            }
        }
        if let [high] = pairs.remainder() {
            self.0 += u64::from(*high) << 8;
        }
        self
    }

    /// And IPv6's pseudo-header (RFC 8200 8.1).
    #[must_use]
    pub fn pseudo_header(
        self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        protocol: u8,
        length: usize,
    ) -> Self {
        self.bytes(&source.octets())
            .bytes(&destination.octets())
            .bytes(&(length as u32).to_be_bytes())
            .bytes(&[0, 0, 0, protocol])
    }

    /// The checksum field; zero if the bytes contain a correct one.
    #[must_use]
    pub const fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xFFFF {
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
        !(sum as u16)
    }

    /// Whether the bytes contain a correct checksum.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.finish() == 0
    }
}
