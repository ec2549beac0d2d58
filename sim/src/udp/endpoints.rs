//! The two endpoints of a UDP wire between two servers.

use std::net::SocketAddr;

/// The two endpoints of a UDP wire, of one address family.
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
}
