//! Names of the wire between simulated functions on the command line.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use super::UdpEnds;

/// The wire of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkSpec {
    /// `in-process`: between the functions of this server only.
    InProcess,
    /// `udp:LOCAL,PEER`: to another server as well.
    Udp(UdpEnds),
}

/// Why a string does not name a wire.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LinkError {
    /// Neither of the two kinds.
    #[error("`{0}` is no link: use in-process or udp:LOCAL_ADDR:PORT,PEER_ADDR:PORT")]
    Unknown(String),
    /// One address instead of two.
    #[error("`{0}` names one end: give both, as udp:LOCAL_ADDR:PORT,PEER_ADDR:PORT")]
    OneEnd(String),
    /// Not an address with a port.
    #[error("`{0}` is no address with a port, like 127.0.0.1:4791 or [::1]:4791")]
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

fn address(text: &str) -> Result<SocketAddr, LinkError> {
    let wrong = |_| LinkError::Address(text.to_owned());
    let address: SocketAddr = text.parse().map_err(wrong)?;
    if address.port() == 0 {
        return Err(LinkError::Port(address));
    }
    Ok(address)
}

impl FromStr for LinkSpec {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        if text == "in-process" {
            return Ok(Self::InProcess);
        }
        let ends = text.strip_prefix("udp:");
        let ends = ends.ok_or_else(|| LinkError::Unknown(text.to_owned()))?;
        let (local, peer) = ends
            .split_once(',')
            .ok_or_else(|| LinkError::OneEnd(text.to_owned()))?;
        let (local, peer) = (address(local)?, address(peer)?);
        let ip = peer.ip();
        let is_broadcast = ip == std::net::Ipv4Addr::BROADCAST;
        if ip.is_unspecified() || ip.is_multicast() || is_broadcast {
            return Err(LinkError::Peer(peer));
        }
        if local.is_ipv4() != peer.is_ipv4() {
            return Err(LinkError::Families(local, peer));
        }
        if local == peer {
            return Err(LinkError::Same(local));
        }
        Ok(Self::Udp(UdpEnds { local, peer }))
    }
}

impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InProcess => f.write_str("in-process"),
            Self::Udp(UdpEnds { local, peer }) => write!(f, "udp:{local},{peer}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_round_trip() {
        for text in [
            "in-process",
            "udp:127.0.0.1:4000,127.0.0.1:4001",
            "udp:0.0.0.0:4000,192.0.2.7:4000",
            "udp:[::1]:1,[fe80::1]:65535",
        ] {
            assert_eq!(text.parse::<LinkSpec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn each_mistake_has_an_error_of_its_own() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let v4 = address("127.0.0.1:1");
        for (text, error) in [
            ("", LinkError::Unknown(String::new())),
            ("udp", LinkError::Unknown("udp".to_owned())),
            (
                "udp:127.0.0.1:1",
                LinkError::OneEnd("udp:127.0.0.1:1".to_owned()),
            ),
            (
                "udp:127.0.0.1,127.0.0.1:1",
                LinkError::Address("127.0.0.1".to_owned()),
            ),
            (
                "udp:127.0.0.1:1,here:2",
                LinkError::Address("here:2".to_owned()),
            ),
            (
                "udp:127.0.0.1:1,127.0.0.1:65536",
                LinkError::Address("127.0.0.1:65536".to_owned()),
            ),
            (
                "udp:127.0.0.1:0,127.0.0.1:1",
                LinkError::Port(address("127.0.0.1:0")),
            ),
            (
                "udp:127.0.0.1:1,0.0.0.0:2",
                LinkError::Peer(address("0.0.0.0:2")),
            ),
            (
                "udp:127.0.0.1:1,224.0.0.1:2",
                LinkError::Peer(address("224.0.0.1:2")),
            ),
            (
                "udp:127.0.0.1:1,[::1]:2",
                LinkError::Families(v4, address("[::1]:2")),
            ),
            ("udp:127.0.0.1:1,127.0.0.1:1", LinkError::Same(v4)),
        ] {
            assert_eq!(text.parse::<LinkSpec>(), Err(error), "{text}");
        }
    }
}
