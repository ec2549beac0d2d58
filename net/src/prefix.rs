//! IP prefixes.

use core::net::{IpAddr, Ipv4Addr};

/// An address and how many of its bits name the network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Prefix {
    ip: IpAddr,
    length: u8,
}

impl Prefix {
    /// The network that `ip` is in; `None` if the address has fewer bits than `length`.
    #[must_use]
    pub fn new(ip: IpAddr, length: u8) -> Option<Self> {
        let bits = if ip.is_ipv4() { 32 } else { 128 };
        (length <= bits).then(|| Self {
            ip: masked(ip, length),
            length,
        })
    }

    /// The network's first address.
    #[must_use]
    pub const fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Number of bits.
    #[must_use]
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// Whether an address of the same family is in the network.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.ip.is_ipv4() && masked(ip, self.length) == self.ip
    }

    /// The address that means all hosts of an IPv4 network (RFC 919 7); networks of 31 and 32
    /// bits have none (RFC 3021 2.1).
    #[must_use]
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        match self.ip {
            IpAddr::V4(v4) if self.length < 31 => {
                let hosts = u32::MAX.checked_shr(self.length.into()).unwrap_or(0);
                Some(Ipv4Addr::from_bits(v4.to_bits() | hosts))
            }
            _ => None,
        }
    }
}

/// An address without the bits behind the first `length`.
fn masked(ip: IpAddr, length: u8) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => {
            let hosts = u32::MAX.checked_shr(length.into()).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & !hosts).into()
        }
        IpAddr::V6(v6) => {
            let hosts = u128::MAX.checked_shr(length.into()).unwrap_or(0);
            core::net::Ipv6Addr::from_bits(v6.to_bits() & !hosts).into()
        }
    }
}

/// How many leading bits two addresses have in common; none of different families.
pub(crate) fn common_bits(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(ip: &str, length: u8) -> Prefix {
        Prefix::new(ip.parse().unwrap(), length).unwrap()
    }

    #[test]
    fn networks_contain_their_hosts() {
        let net = prefix("10.1.2.3", 23);
        assert_eq!(net, prefix("10.1.3.255", 23));
        assert_eq!(net.broadcast(), Some(Ipv4Addr::new(10, 1, 3, 255)));
        assert!(net.contains("10.1.2.0".parse().unwrap()));
        assert!(!net.contains("10.1.4.0".parse().unwrap()));
        assert!(!net.contains("::ffff:10.1.2.0".parse().unwrap()));
        assert!(prefix("1.2.3.4", 0).contains("9.9.9.9".parse().unwrap()));
        assert!(prefix("::", 0).contains("fe80::1".parse().unwrap()));
        assert!(!prefix("fe80::1", 128).contains("fe80::2".parse().unwrap()));
        assert_eq!(prefix("10.0.0.0", 31).broadcast(), None);
        assert_eq!(Prefix::new("10.0.0.0".parse().unwrap(), 33), None);
        assert_eq!(Prefix::new("::".parse().unwrap(), 129), None);
    }
}
