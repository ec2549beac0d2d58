//! Receive side scaling: the queue of a VSI that gets a frame (lan-path 7.4).
//!
//! Profiles determine which fields of a packet go into the hash: addresses of an IP packet, and
//! ports if it is TCP, UDP or SCTP and not a fragment. Their order is that of the packet
//! `[inf hash_order]`.

use super::headers::{Flow, flow, parse};

/// The fields of a packet that a hash covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HashFields {
    pub(crate) source: bool,
    pub(crate) destination: bool,
    pub(crate) source_port: bool,
    pub(crate) destination_port: bool,
}

impl HashFields {
    pub(crate) const ALL: Self = Self {
        source: true,
        destination: true,
        source_port: true,
        destination_port: true,
    };
}

/// The packet type that selects a frame's profile.
pub(crate) fn packet_type(frame: &[u8]) -> u16 {
    parse(frame).ptype
}

/// How a VSI's table and key spread frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spread<'a> {
    pub(crate) key: &'a [u8],
    /// Queues of the VSI, one for each entry.
    pub(crate) table: &'a [u8],
    /// Both directions of a flow have the same hash.
    pub(crate) is_symmetric: bool,
    pub(crate) fields: HashFields,
}

/// The selected fields of a pair.
fn pair(wanted: [bool; 2], [one, other]: [&[u8]; 2], is_symmetric: bool) -> Vec<u8> {
    match wanted {
        // Symmetric: the same from both ends.
        [true, true] if is_symmetric => one.iter().zip(other).map(|(a, b)| a ^ b).collect(),
        [true, true] => [one, other].concat(),
        [true, false] => one.to_vec(),
        [false, true] => other.to_vec(),
        [false, false] => Vec::new(),
    }
}

impl Spread<'_> {
    /// The hash of a frame and the queue that the table has for it; `None` for a frame without a
    /// hash.
    pub(crate) fn queue(&self, frame: &[u8]) -> Option<(u32, u16)> {
        let Flow {
            source,
            destination,
            ports,
        } = flow(frame)?;
        let (from, to): (&[u8], &[u8]) = match &ports {
            Some([from, to]) => (from, to),
            None => (&[], &[]),
        };
        let fields = self.fields;
        let addresses = [fields.source, fields.destination];
        let mut input = pair(addresses, [&source, &destination], self.is_symmetric);
        let wanted = [fields.source_port, fields.destination_port];
        input.extend(pair(wanted, [from, to], self.is_symmetric));
        if input.is_empty() {
            return None;
        }
        let hash = toeplitz(self.key, &input);
        let entry = (hash as usize).checked_rem(self.table.len())?;
        Some((hash, self.table.get(entry).copied()?.into()))
    }
}

/// The Toeplitz hash: for each set bit of the input, the 32 key bits from that position on.
fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let window = |bit: usize| {
        (0..32).fold(0, |window, n| {
            let at = bit + n;
            let byte = key.get(at / 8).copied().unwrap_or(0);
            window << 1 | u32::from(byte >> (7 - at % 8) & 1)
        })
    };
    let bits = input
        .iter()
        .enumerate()
        .flat_map(|(at, byte)| (0..8).map(move |bit| (8 * at + bit, byte << bit & 0x80 != 0)));
    bits.filter(|(_, is_set)| *is_set)
        .fold(0, |hash, (bit, _)| hash ^ window(bit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key and rows of the test suite that Microsoft publishes for drivers of network cards.
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn the_published_hashes() {
        // 66.9.149.187:2794 to 161.142.100.80:1766.
        let addresses = [66, 9, 149, 187, 161, 142, 100, 80];
        assert_eq!(toeplitz(&KEY, &addresses), 0x323e_8fc2);
        let mut all = addresses.to_vec();
        all.extend_from_slice(&2794_u16.to_be_bytes());
        all.extend_from_slice(&1766_u16.to_be_bytes());
        assert_eq!(toeplitz(&KEY, &all), 0x51cc_c178);
    }

    /// A UDP packet with these ports.
    fn udp(from: u16, to: u16, is_back: bool) -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + 8];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[17] = 28;
        frame[23] = 17;
        let ends: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let [source, destination] = if is_back { [ends[1], ends[0]] } else { ends };
        frame[26..30].copy_from_slice(&source);
        frame[30..34].copy_from_slice(&destination);
        frame[34..36].copy_from_slice(&from.to_be_bytes());
        frame[36..38].copy_from_slice(&to.to_be_bytes());
        frame
    }

    #[test]
    fn flows_are_spread_and_each_stays_where_it_is() {
        let table: Vec<u8> = (0..64).map(|entry| entry % 4).collect();
        let mut spread = Spread {
            key: &KEY,
            table: &table,
            is_symmetric: false,
            fields: HashFields::ALL,
        };
        let mut seen = [0; 4];
        for port in 0..64 {
            let frame = udp(1000 + port, 4000, false);
            let (hash, queue) = spread.queue(&frame).unwrap();
            assert_eq!(spread.queue(&frame), Some((hash, queue)));
            assert_eq!(u32::from(queue), hash % 64 % 4);
            seen[usize::from(queue)] += 1;
        }
        assert!(seen.iter().all(|count| *count > 4), "{seen:?}");
        let back = |spread: &Spread<'_>| {
            let there = spread.queue(&udp(1000, 4000, false)).unwrap();
            (there, spread.queue(&udp(4000, 1000, true)).unwrap())
        };
        let (there, other) = back(&spread);
        assert_ne!(there.0, other.0);
        spread.is_symmetric = true;
        let (there, other) = back(&spread);
        assert_eq!(there, other);
        // ARP has no flow.
        assert_eq!(spread.queue(&[0; 60]), None);
    }
}
