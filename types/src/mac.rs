//! Ethernet addresses.

use core::fmt;

/// A MAC address, first octet on the wire first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All stations.
    pub const BROADCAST: Self = Self([0xFF; 6]);
    /// No station.
    pub const ZERO: Self = Self([0; 6]);

    /// Whether it names a group, of which broadcast is one.
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        let Self([first, ..]) = self;
        first & 1 != 0
    }

    /// Whether one station may have it.
    #[must_use]
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self != Self::ZERO
    }

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
