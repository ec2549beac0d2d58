//! Traffic counters in the layout of GATHER_STATS (control-path 4.13).
//!
//! What exactly the card counts is inferred from the names: octets are those of the IP
//! datagram \[inf octets\], RDMA counters count messages, at their last packet
//! \[inf counted_sends\], and TCP, fragment and drop counters stay 0 \[inf counters_at_0\].

use crate::variation::{CountedSends, Octets, Variation};

/// Bytes that GATHER_STATS writes.
pub(crate) const GATHER_BYTES: usize = 1024;

// Byte offsets in the gather buffer.
const RX_VLAN_ERRORS: usize = 0;
const IP4_RX_OCTETS: usize = 8;
const IP6_RX_OCTETS: usize = 56;
const IP4_TX_OCTETS: usize = 104;
const IP6_TX_OCTETS: usize = 144;
const UDP_RX_PACKETS: usize = 224;
const UDP_TX_PACKETS: usize = 232;
const RX_WRITES: usize = 240;
const RX_READS: usize = 248;
const RX_SENDS: usize = 256;
const TX_WRITES: usize = 264;
const TX_READS: usize = 272;
const TX_SENDS: usize = 280;
const BINDS: usize = 288;
const INVALIDATES: usize = 296;
const RX_MARKED_PACKETS: usize = 304;
const NOTIFICATIONS: usize = 312;

/// Direction of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Receive,
    Transmit,
}

/// The counters of one function, one word per qword of the gather buffer (48 bits count).
#[derive(Clone, Debug)]
pub(crate) struct Statistics {
    words: [u64; GATHER_BYTES / 8],
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            words: [0; GATHER_BYTES / 8],
        }
    }
}

impl Statistics {
    fn add(&mut self, offset: usize, n: u64) {
        if let Some(word) = self.words.get_mut(offset / 8) {
            // 48-bit counters wrap.
            *word = word.wrapping_add(n) & 0xFFFF_FFFF_FFFF;
        }
    }

    /// Counts a RoCEv2 frame.
    pub(crate) fn frame(&mut self, frame: &[u8], direction: Direction, choices: &Variation) {
        let Some(seen) = Seen::of(frame) else {
            return;
        };
        let receive = direction == Direction::Receive;
        let octets = match (seen.ipv6, receive) {
            (false, true) => IP4_RX_OCTETS,
            (true, true) => IP6_RX_OCTETS,
            (false, false) => IP4_TX_OCTETS,
            (true, false) => IP6_TX_OCTETS,
        };
        if receive && seen.marked {
            self.count(RX_MARKED_PACKETS, 0, 56);
        }
        let bytes = match choices.octets {
            Octets::Datagrams => seen.octets,
            Octets::Frames => frame.len() as u64,
        };
        self.add(octets, bytes);
        self.add(octets + 8, 1);
        self.add(
            if receive {
                UDP_RX_PACKETS
            } else {
                UDP_TX_PACKETS
            },
            1,
        );
        let is_each = choices.counted_sends == CountedSends::Packets;
        let message = match (seen.opcode & 0x1F, receive) {
            // First and middle packets.
            (0x00 | 0x01, true) if is_each => RX_SENDS,
            (0x00 | 0x01, false) if is_each => TX_SENDS,
            (0x06 | 0x07, true) if is_each => RX_WRITES,
            (0x06 | 0x07, false) if is_each => TX_WRITES,
            // Last and only packets of sends: 02, 03, 04, 05, and with invalidate 16, 17.
            (0x02..=0x05 | 0x16 | 0x17, true) => RX_SENDS,
            (0x02..=0x05 | 0x16 | 0x17, false) => TX_SENDS,
            (0x08..=0x0B, true) => RX_WRITES,
            (0x08..=0x0B, false) => TX_WRITES,
            (0x0C, true) => RX_READS,
            (0x0C, false) => TX_READS,
            _ => return,
        };
        self.add(message, 1);
    }

    /// Increments a field of `width` bits from bit `low` on, which wraps.
    fn count(&mut self, offset: usize, low: u32, width: u32) {
        if let Some(word) = self.words.get_mut(offset / 8) {
            let field = u64::MAX >> (u64::BITS - width) << low;
            *word = *word & !field | word.wrapping_add(1 << low) & field;
        }
    }

    /// Counts a packet with another VLAN than the queue pair's.
    pub(crate) fn other_vlan(&mut self) {
        self.count(RX_VLAN_ERRORS, 32, 24);
    }

    /// Counts a congestion notification (CNP) for a queue pair as handled or as ignored. A queue
    /// pair that should handle it does not send slower here.
    pub(crate) fn congestion_notified(&mut self, handled: bool) {
        if handled {
            self.count(NOTIFICATIONS, 0, 32);
        } else {
            self.count(NOTIFICATIONS, 32, 24);
        }
    }

    /// Counts a bound window.
    pub(crate) fn bind(&mut self) {
        self.add(BINDS, 1);
    }

    /// Counts an invalidated STag.
    pub(crate) fn invalidate(&mut self) {
        self.add(INVALIDATES, 1);
    }

    /// The gather buffer.
    pub(crate) fn gather(&self) -> [u64; GATHER_BYTES / 8] {
        self.words
    }
}

/// Fields of a frame that the counters need.
struct Seen {
    ipv6: bool,
    octets: u64,
    /// ECN: congestion experienced.
    marked: bool,
    opcode: u8,
}

impl Seen {
    /// Reads fixed offsets only: the receiver checks the frame.
    fn of(frame: &[u8]) -> Option<Self> {
        let tagged = frame.get(12..14)? == [0x81, 0x00];
        let ip = frame.get(if tagged { 18 } else { 14 }..)?;
        let (ipv6, header) = match ip.first()? >> 4 {
            4 => (false, 20),
            6 => (true, 40),
            _ => return None,
        };
        let length = |at: usize| {
            Some(u64::from(u16::from_be_bytes([
                *ip.get(at)?,
                *ip.get(at + 1)?,
            ])))
        };
        let octets = if ipv6 { length(4)? + 40 } else { length(2)? };
        // The low bits of the TOS, or of the traffic class, which begins in the middle of a byte.
        let ecn = *ip.get(1)? >> if ipv6 { 4 } else { 0 };
        // UDP is 8 bytes; the BTH starts with its opcode.
        let opcode = *ip.get(header + 8)?;
        Some(Self {
            ipv6,
            octets,
            marked: ecn & 3 == 3,
            opcode,
        })
    }
}
