//! Ethernet addresses.

use core::fmt;

/// A MAC address, first octet on the wire first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The address as the number the RDMA engine takes everywhere: the first
    /// octet on the wire is bits \[47:40\].
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
