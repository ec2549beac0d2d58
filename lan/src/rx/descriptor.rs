//! A receive descriptor as the device writes it back, format 2 (lan-path 5.6).

/// Words of a descriptor.
pub(super) const WORDS: usize = 4;

/// RXDID of the flex NIC format.
const FLEX_NIC: u64 = 2;
/// Bits of q8: status_error0.
const DD: u64 = 1 << 0;
const EOF: u64 = 1 << 1;
const HBO: u64 = 1 << 2;
const RXE: u64 = 1 << 10;
const L2TAG1P: u64 = 1 << 13;
/// Bit of q16: status_error1.
const L2TAG2P: u64 = 1 << 11;
/// pkt_len in q0.
const LENGTH_SHIFT: u32 = 32;
const LENGTH_MASK: u64 = 0x3FFF;

/// Whether the device has written the descriptor back. Looks at q8 first; nothing else may be
/// read before it is done.
pub(super) const fn is_done(q8: u64) -> bool {
    q8 & DD != 0
}

/// The contents of a written-back descriptor. Any three words give one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Written {
    /// Bytes in the buffer, according to the device: 0 to 16383.
    pub(super) length: u16,
    /// The last buffer of its frame.
    pub(super) is_last: bool,
    /// The MAC or the header buffer reports an error.
    pub(super) is_damaged: bool,
    /// A VLAN tag was taken out of the frame.
    pub(super) has_lost_tag: bool,
    /// In the format that was asked for.
    pub(super) is_ours: bool,
}

impl Written {
    pub(super) const fn decode(q0: u64, q8: u64, q16: u64) -> Self {
        Self {
            length: (q0 >> LENGTH_SHIFT & LENGTH_MASK) as u16,
            is_last: q8 & EOF != 0,
            is_damaged: q8 & (HBO | RXE) != 0,
            has_lost_tag: q8 & L2TAG1P != 0 || q16 & L2TAG2P != 0,
            is_ours: q0 & 0xFF == FLEX_NIC,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_table_says() {
        let plain = Written {
            length: 0,
            is_last: false,
            is_damaged: false,
            has_lost_tag: false,
            is_ours: true,
        };
        let decode = Written::decode;
        assert_eq!(decode(2, 1, 0), plain);
        assert!(is_done(1) && !is_done(!1));
        let length = decode(2 | 0x3FFF << 32, 1, 0).length;
        assert_eq!(length, 16383);
        assert_eq!(decode(2 | !(0x3FFF << 32) & !0xFF, 1, 0), plain);
        assert!(decode(2, 3, 0).is_last);
        for bit in [2, 10] {
            assert!(decode(2, 1 | 1 << bit, 0).is_damaged);
        }
        assert!(decode(2, 1 | 1 << 13, 0).has_lost_tag);
        assert!(decode(2, 1, 1 << 11).has_lost_tag);
        // Checksum results, hash, tag values, times: not read.
        let others = !(1 << 1 | 1 << 2 | 1 << 10 | 1 << 13);
        assert_eq!(decode(2, others, !(1 << 11)), plain);
        for rxdid in [0, 1, 3, 0x40, 0xFF] {
            assert!(!decode(rxdid, 1, 0).is_ours);
        }
    }
}
