//! How two ends of a segment agree on a ring.
//!
//! The end that wants to write connects to a socket of the other, whose name follows from the
//! segment and the port of that end. Both must be of one user. Then, over that socket:
//!
//! 1. the writer sends its port, with the file of the ring ([`Offer`]);
//! 2. the reader answers with the addresses of its functions, and a number ([`Answer`]); one that
//!    takes no more rings closes the socket;
//! 3. the writer sends a datagram with that number to the port of the reader, behind all frames that
//!    it has sent there as datagrams. What it sends to these addresses from now on is in the ring;
//! 4. the reader begins to read the ring when it has the datagram, and says so ([`STARTED`]). So
//!    frames stay in order. Until then the writer repeats the datagram;
//! 5. the writer wakes a reader that sleeps ([`WAKE`]).
//!
//! The socket of an end that is gone is closed, which ends the ring.

use std::net::SocketAddr;

use e810_sim::link::Mac;

use crate::name::WireName;

/// What offers and answers begin with. Another version of rings has another.
const VERSION: &[u8; 12] = b"e810 ring 1 ";
/// The reader reads.
pub(super) const STARTED: &[u8] = b"started";
/// The reader is to look.
pub(super) const WAKE: &[u8] = b"wake";
/// Bytes of a message at most.
pub(super) const MOST: usize = 128;
/// Functions of an end at most: those of a card.
const MOST_MACS: usize = 8;

/// The name of the socket at which an end takes rings.
pub(super) fn name(wire: &WireName, end: SocketAddr) -> String {
    format!("e810-wire {} {}", wire.group(), end.port())
}

/// The port from which the writer sends datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Offer(pub(super) u16);

impl Offer {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        [&VERSION[..], &self.0.to_be_bytes()].concat()
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let port = bytes.strip_prefix(VERSION)?;
        Some(Self(u16::from_be_bytes(port.try_into().ok()?)))
    }
}

/// What a reader answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// What the writer has to say from its port, so that nobody writes in the name of another.
    pub(super) number: u64,
    /// Frames to these addresses are taken from the ring.
    pub(super) macs: Vec<Mac>,
}

impl Answer {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [&VERSION[..], &self.number.to_be_bytes()].concat();
        let macs = self.macs.iter().take(MOST_MACS);
        bytes.extend(macs.flatten());
        bytes
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (number, macs) = bytes.strip_prefix(VERSION)?.split_first_chunk::<8>()?;
        let (macs, rest) = macs.as_chunks::<6>();
        let is_good = rest.is_empty() && macs.len() <= MOST_MACS;
        is_good.then(|| Self {
            number: u64::from_be_bytes(*number),
            macs: macs.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_others_are_none() {
        assert_eq!(Offer::of_bytes(&Offer(4711).to_bytes()), Some(Offer(4711)));
        for macs in [vec![], vec![[2, 0, 0, 0, 0, 1]], vec![[4; 6]; 8]] {
            let answer = Answer {
                number: u64::MAX - 7,
                macs,
            };
            let bytes = answer.to_bytes();
            assert!(bytes.len() <= MOST);
            assert_eq!(Answer::of_bytes(&bytes), Some(answer));
            for length in 0..bytes.len() {
                let cut = Answer::of_bytes(&bytes[..length]);
                assert!(cut.is_none_or(|cut| cut.to_bytes() == bytes[..length]));
                assert_eq!(Offer::of_bytes(&bytes[..length]).is_some(), length == 14);
            }
        }
        let nine = [&VERSION[..], &[0; 8], &[2; 9 * 6]].concat();
        assert_eq!(Answer::of_bytes(&nine), None);
        assert_eq!(Offer::of_bytes(b"e810 ring 2 xx"), None);
    }

    #[test]
    fn a_socket_has_the_name_of_its_end() {
        let wire = "lab".parse().unwrap();
        let end = "127.0.0.1:42503".parse().unwrap();
        assert_eq!(name(&wire, end), "e810-wire 239.36.125.173:63996 42503");
    }
}
