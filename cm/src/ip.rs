//! The IP addresses of the two ends, which stand in the private data of REQ and SIDR_REQ, and the
//! service ids of ports (cm-path 6.1, 6.2).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of a GID.
pub const GID: usize = 16;

/// Bytes of the header, in front of the program's private data.
pub const HEADER: usize = 36;

/// Q_Key of the UD queue pairs of port space UDP, unless a program chooses another (cm-path 6.6).
pub const UDP_QKEY: u32 = 0x0123_4567;

/// Whose ports a service is among.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PortSpace {
    /// Connected (RC).
    Tcp,
    /// Datagrams (UD).
    Udp,
    /// Any, without the IP header.
    Ib,
    /// Datagrams (UD), among ports of their own.
    Ipoib,
}

impl PortSpace {
    const fn number(self) -> u64 {
        match self {
            Self::Tcp => 0x0106,
            Self::Udp => 0x0111,
            Self::Ib => 0x013F,
            Self::Ipoib => 0x0002,
        }
    }

    /// Whether programs ask there for queue pairs of datagrams (SIDR), and not for connections.
    #[must_use]
    pub const fn is_datagrams(self) -> bool {
        matches!(self, Self::Udp | Self::Ipoib)
    }

    /// Service id of a port.
    #[must_use]
    pub const fn service_id(self, port: u16) -> u64 {
        self.number() << 16 | port as u64
    }

    /// The port of a service id; `None` for one of another kind.
    #[must_use]
    pub const fn of_service_id(service_id: u64) -> Option<(Self, u16)> {
        let space = match service_id >> 16 {
            0x0106 => Self::Tcp,
            0x0111 => Self::Udp,
            0x013F => Self::Ib,
            0x0002 => Self::Ipoib,
            _ => return None,
        };
        Some((space, service_id as u16))
    }

    /// Bytes in front of the program's private data.
    #[must_use]
    pub const fn header(self) -> usize {
        match self {
            Self::Ib => 0,
            Self::Tcp | Self::Udp | Self::Ipoib => HEADER,
        }
    }
}

/// GID of an address: IPv4 as ::ffff:a.b.c.d.
#[must_use]
#[inline(never)]
pub const fn gid(address: IpAddr) -> [u8; GID] {
    let number = match address {
        IpAddr::V4(v4) => 0xFFFF << 32 | v4.to_bits() as u128,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    number.to_be_bytes()
}

/// Address of a GID.
#[must_use]
#[inline(never)]
pub const fn address(gid: [u8; GID]) -> IpAddr {
    let number = u128::from_be_bytes(gid);
    match number >> 32 {
        0xFFFF => IpAddr::V4(Ipv4Addr::from_bits(number as u32)),
        _ => IpAddr::V6(Ipv6Addr::from_bits(number)),
    }
}

/// The header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpHeader {
    /// Port of the sender.
    pub port: u16,
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver, of the same family.
    pub destination: IpAddr,
}

impl IpHeader {
    /// Its bytes. Two addresses of unlike families are both written as IPv6.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER] {
        let is_v4 = self.source.is_ipv4() && self.destination.is_ipv4();
        // IPv4 without what a GID has in front of it.
        let mask = if is_v4 { u32::MAX.into() } else { u128::MAX };
        let bytes = |address| (u128::from_be_bytes(gid(address)) & mask).to_be_bytes();
        let mut header = [0; HEADER];
        let (version, rest) = header.split_at_mut(2);
        copy(version, &[0, if is_v4 { 4 << 4 } else { 6 << 4 }]);
        let (port, rest) = rest.split_at_mut(2);
        copy(port, &self.port.to_be_bytes());
        let (source, destination) = rest.split_at_mut(GID);
        copy(source, &bytes(self.source));
        copy(destination, &bytes(self.destination));
        header
    }

    /// Reads it from the private data of a request; `None` for another version or IP version.
    #[must_use]
    pub fn decode(private_data: &[u8]) -> Option<Self> {
        let (&[0, version, high, low], rest) = private_data.split_first_chunk()? else {
            return None;
        };
        let (source, rest) = rest.split_first_chunk::<GID>()?;
        let destination = rest.first_chunk::<GID>()?;
        let address = |bytes: &[u8; GID]| match version >> 4 {
            4 => Some(IpAddr::V4(Ipv4Addr::from(
                u128::from_be_bytes(*bytes) as u32
            ))),
            6 => Some(IpAddr::V6(Ipv6Addr::from(*bytes))),
            _ => None,
        };
        Some(Self {
            port: u16::from_be_bytes([high, low]),
            source: address(source)?,
            destination: address(destination)?,
        })
    }
}

/// Copies as many bytes as both have; unlike the library's, it cannot panic.
pub(crate) fn copy(into: &mut [u8], from: &[u8]) {
    for (into, byte) in into.iter_mut().zip(from) {
        *into = *byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_ids_are_linuxs() {
        assert_eq!(PortSpace::Tcp.service_id(7174), 0x0106_1C06);
        let all = [
            PortSpace::Tcp,
            PortSpace::Udp,
            PortSpace::Ib,
            PortSpace::Ipoib,
        ];
        for space in all {
            let of = PortSpace::of_service_id(space.service_id(65535));
            assert_eq!(of, Some((space, 65535)));
        }
        assert_eq!(PortSpace::of_service_id(1 << 48 | 0x0106_1C06), None);
    }

    #[test]
    fn headers_come_back() {
        for [source, destination] in [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]] {
            let header = IpHeader {
                port: 4242,
                source: source.parse().unwrap(),
                destination: destination.parse().unwrap(),
            };
            let mut bytes = [7; 92];
            bytes[..HEADER].copy_from_slice(&header.encode());
            assert_eq!(IpHeader::decode(&bytes), Some(header));
            for (at, wrong) in [(0, 1), (1, 0), (1, 0x50)] {
                let mut bytes = bytes;
                bytes[at] = wrong;
                assert_eq!(IpHeader::decode(&bytes), None);
            }
            assert_eq!(IpHeader::decode(&bytes[..HEADER - 1]), None);
        }
    }

    #[test]
    fn a_gid_is_its_address() {
        for text in ["192.0.2.1", "fe80::1", "::"] {
            let ip = text.parse().unwrap();
            assert_eq!(address(gid(ip)), ip);
        }
    }
}
