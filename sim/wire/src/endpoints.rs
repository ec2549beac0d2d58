//! The two endpoints of a wire between two processes.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// The two endpoints of a wire between two processes, of one address family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpEnds {
    /// Where frames are received, and sent from.
    pub local: SocketAddr,
    /// Where they are sent, and have to come from.
    pub peer: SocketAddr,
}

impl UdpEnds {
    /// Ethernet address of the first function of the server at this end, when
    /// none was given: the local port is in it, so that two ends with
    /// different ports have different addresses.
    ///
    /// # Errors
    /// If the ports are the same; the error says what to do.
    pub fn first_mac(&self) -> Result<[u8; 6], SamePort> {
        if self.local.port() == self.peer.port() {
            return Err(SamePort(self.local.port()));
        }
        let [high, low] = self.local.port().to_be_bytes();
        Ok([0x02, 0xe8, high, low, 0, 0])
    }
}

/// The Ethernet addresses of two servers would be the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "both ends have port {0}, of which the functions' Ethernet addresses are made: give the two servers different ones with --mac"
)]
pub struct SamePort(u16);

/// Why a string does not name two endpoints.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoEnds {
    /// One address instead of two.
    #[error("`{0}` is one end: give both, as LOCAL_ADDR:PORT,PEER_ADDR:PORT")]
    OneEnd(String),
    /// Not an address with a port.
    #[error("`{0}` is not an address with a port, like 127.0.0.1:4791 or [::1]:4791")]
    Address(String),
    /// Port 0.
    #[error("`{0}` has no port: both ends need to know each other's, from 1 to 65535")]
    Port(SocketAddr),
    /// A peer of no address, or of many.
    #[error("`{0}` is not the address of one machine")]
    Peer(SocketAddr),
    /// IPv4 here and IPv6 there.
    #[error("{0} and {1} are of different families: give two IPv4 or two IPv6 addresses")]
    Families(SocketAddr, SocketAddr),
    /// A wire from here to here.
    #[error("{0} is both ends: the peer is another server")]
    Same(SocketAddr),
}

fn address(text: &str) -> Result<SocketAddr, NoEnds> {
    let wrong = |_| NoEnds::Address(text.to_owned());
    let address: SocketAddr = text.parse().map_err(wrong)?;
    if address.port() == 0 {
        return Err(NoEnds::Port(address));
    }
    Ok(address)
}

impl FromStr for UdpEnds {
    type Err = NoEnds;

    /// Reads `LOCAL_ADDR:PORT,PEER_ADDR:PORT`.
    fn from_str(text: &str) -> Result<Self, NoEnds> {
        let (local, peer) = text
            .split_once(',')
            .ok_or_else(|| NoEnds::OneEnd(text.to_owned()))?;
        let (local, peer) = (address(local)?, address(peer)?);
        let ip = peer.ip();
        if ip.is_unspecified() || ip.is_multicast() || ip == Ipv4Addr::BROADCAST {
            return Err(NoEnds::Peer(peer));
        }
        if local.is_ipv4() != peer.is_ipv4() {
            return Err(NoEnds::Families(local, peer));
        }
        if local == peer {
            return Err(NoEnds::Same(local));
        }
        Ok(Self { local, peer })
    }
}

impl fmt::Display for UdpEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.local, self.peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_ends_differ_in_their_ethernet_addresses() {
        let ends = |local: &str, peer: &str| UdpEnds {
            local: local.parse().unwrap(),
            peer: peer.parse().unwrap(),
        };
        let (a, b) = ("127.0.0.1:4660", "127.0.0.1:4661");
        assert_eq!(ends(a, b).first_mac(), Ok([2, 0xe8, 0x12, 0x34, 0, 0]));
        assert_eq!(ends(b, a).first_mac(), Ok([2, 0xe8, 0x12, 0x35, 0, 0]));
        assert_eq!(ends(a, "127.0.0.2:4660").first_mac(), Err(SamePort(4660)));
    }

    #[test]
    fn ends_round_trip() {
        for text in [
            "127.0.0.1:4000,127.0.0.1:4001",
            "0.0.0.0:4000,192.0.2.7:4000",
            "[::1]:1,[fe80::1]:65535",
        ] {
            assert_eq!(text.parse::<UdpEnds>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn each_mistake_has_an_error_of_its_own() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let of_text = |error: fn(String) -> NoEnds, text: &str| error(text.to_owned());
        let v4 = address("127.0.0.1:1");
        for (text, error) in [
            ("", of_text(NoEnds::OneEnd, "")),
            ("127.0.0.1:1", of_text(NoEnds::OneEnd, "127.0.0.1:1")),
            (
                "127.0.0.1,127.0.0.1:1",
                of_text(NoEnds::Address, "127.0.0.1"),
            ),
            ("127.0.0.1:1,here:2", of_text(NoEnds::Address, "here:2")),
            (
                "127.0.0.1:1,127.0.0.1:65536",
                of_text(NoEnds::Address, "127.0.0.1:65536"),
            ),
            (
                "127.0.0.1:0,127.0.0.1:1",
                NoEnds::Port(address("127.0.0.1:0")),
            ),
            ("127.0.0.1:1,0.0.0.0:2", NoEnds::Peer(address("0.0.0.0:2"))),
            (
                "127.0.0.1:1,224.0.0.1:2",
                NoEnds::Peer(address("224.0.0.1:2")),
            ),
            (
                "127.0.0.1:1,[::1]:2",
                NoEnds::Families(v4, address("[::1]:2")),
            ),
            ("127.0.0.1:1,127.0.0.1:1", NoEnds::Same(v4)),
        ] {
            assert_eq!(text.parse::<UdpEnds>(), Err(error), "{text}");
        }
    }
}
