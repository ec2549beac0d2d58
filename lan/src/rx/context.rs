//! The context of a receive queue (lan-path 5.1): eight registers.

use e810_hal::Iova;

use crate::error::{Error, Result, Ring};
use crate::init::check_entries;

/// Upper limit of the descriptors of a frame (lan-path 1.4).
pub(super) const MAX_CHAIN: usize = 5;

/// Parameters of a receive queue. All other fields have the values that existing drivers write:
/// descriptors of 32 bytes, no header split, FCS stripped, prefetch, an immediate interrupt when
/// 64 descriptors are left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RxQueueContext {
    /// The ring: a multiple of 128 bytes.
    pub ring: Iova,
    /// Descriptors of the ring: 64 to 8160, a multiple of 32 (lan-path 1.4).
    pub entries: u16,
    /// Bytes of a buffer, at most 16 KiB - 128; the device counts in units of 128.
    pub buffer: u16,
    /// The longest frame, at most five buffers.
    pub max_frame: u16,
}

/// A field: its first bit and its width.
#[derive(Clone, Copy)]
struct Field(u32, u32);

const BASE: Field = Field(32, 57);
const QLEN: Field = Field(89, 13);
const DBUF: Field = Field(102, 7);
const DSIZE: Field = Field(116, 1);
const CRCSTRIP: Field = Field(117, 1);
const L2TSEL: Field = Field(119, 1);
const RXMAX: Field = Field(174, 14);
const LRXQTHRESH: Field = Field(198, 3);
const PREFENA: Field = Field(201, 1);

/// Units of the ring's address and of buffers, as a shift.
const UNIT_SHIFT: u32 = 7;
const UNIT: u16 = 1 << UNIT_SHIFT;
const LONGEST_BUFFER: u16 = 16384 - UNIT;

impl RxQueueContext {
    /// The eight words, for QRX_CONTEXT(0) to (7).
    ///
    /// # Errors
    /// [`Error::Entries`]; [`Error::Context`] for a ring that is not aligned, a
    /// buffer that the device cannot have, a frame longer than five of them.
    pub fn encode(&self) -> Result<[u32; 8]> {
        check_entries(Ring::Receive, self.entries)?;
        let bad = |what, value| Err(Error::Context { what, value });
        if self.ring.0 & u64::from(UNIT - 1) != 0 {
            return bad("ring address (a multiple of 128)", self.ring.0);
        }
        if self.buffer == 0 || self.buffer > LONGEST_BUFFER {
            return bad("buffer size (1 to 16256 bytes)", self.buffer.into());
        }
        let units = self.buffer.div_ceil(UNIT);
        let chain = usize::from(units)
            .saturating_mul(UNIT.into())
            .saturating_mul(MAX_CHAIN);
        // 14 bits, and no more than a frame may take ("must not be larger than 5 ×
        // DBUF").
        if usize::from(self.max_frame) > chain || self.max_frame >= 1 << RXMAX.1 {
            return bad(
                "longest frame (at most five buffers)",
                self.max_frame.into(),
            );
        }
        let fields = [
            (BASE, self.ring.0 >> UNIT_SHIFT),
            (QLEN, self.entries.into()),
            (DBUF, units.into()),
            (DSIZE, 1),
            (CRCSTRIP, 1),
            // A stripped tag would be in L2TAG1; the VSI leaves tags in frames.
            (L2TSEL, 1),
            (RXMAX, self.max_frame.into()),
            (LRXQTHRESH, 1),
            (PREFENA, 1),
        ];
        let mut words = [0; 8];
        for (field, value) in fields {
            put_bits(&mut words, field, value);
        }
        Ok(words)
    }
}

/// Sets a field that is zero, bit n being bit n mod 32 of word n div 32.
fn put_bits(words: &mut [u32; 8], Field(first, width): Field, value: u64) {
    for bit in 0..width {
        let place = first.saturating_add(bit);
        if value >> bit & 1 != 0
            && let Some(word) = words.get_mut((place / 32) as usize)
        {
            *word |= 1 << (place % 32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand from the table of lan-path 5.1.
    #[test]
    fn a_small_queue_word_for_word() {
        let context = RxQueueContext {
            ring: Iova(0x1234_5600),
            entries: 64,
            buffer: 2048,
            max_frame: 1526,
        };
        let expected = [
            // Head and CPU: 0.
            0,
            // Bits 32..88: 0x12345600 / 128.
            0x0024_68AC,
            // Bits 89..101: 64 is bit 95, the last one here.
            0x8000_0000,
            // dbuf 16 at bit 102 (16 << 6), dsize 116, crcstrip 117, l2tsel 119.
            0x0000_0400 | 1 << 20 | 1 << 21 | 1 << 23,
            0,
            // rxmax 1526 (0x5F6) at bit 174: 0x5F6 << 14.
            0x017D_8000,
            // lrxqthresh 1 at bit 198, prefena at bit 201.
            0x0000_0240,
            0,
        ];
        assert_eq!(context.encode(), Ok(expected));
    }

    /// Linux 6.12 with an MTU of 1500: 2048 descriptors, buffers of 1534 bytes (dbuf
    /// 12), rxmax 1534, single VLAN mode; a ring above 4 GiB.
    #[test]
    fn linux_values_word_for_word() {
        let context = RxQueueContext {
            ring: Iova(0x7F_8000_1000_0080),
            entries: 2048,
            buffer: 1534,
            max_frame: 1534,
        };
        // 0x7F80_0010_0000_80 / 128 = 0xFF_0000_2000_01: words 1 and 2 share it.
        let expected = [
            0,
            0x0020_0001,
            // 0xFF00 from bit 64; 2048 at bit 89 is bit 100: word 3.
            0x0000_FF00,
            // 2048 >> 7 = 16; dbuf 12 << 6 = 0x300; dsize, crcstrip, l2tsel.
            0x00B0_0310,
            0,
            // 0x5FE << 14.
            0x017F_8000,
            0x0000_0240,
            0,
        ];
        assert_eq!(context.encode(), Ok(expected));
    }

    #[test]
    fn what_the_device_does_not_take_is_refused() {
        let refused = |change: fn(&mut RxQueueContext)| {
            let mut context = RxQueueContext {
                ring: Iova(0x1000),
                entries: 64,
                buffer: 2048,
                max_frame: 9728,
            };
            change(&mut context);
            context.encode().is_err()
        };
        assert!(!refused(|_| ()));
        assert!(refused(|context| context.ring = Iova(0x1040)));
        assert!(refused(|context| context.entries = 72));
        assert!(refused(|context| context.buffer = 0));
        assert!(refused(|context| context.buffer = 16257));
        assert!(refused(|context| context.buffer = 1900));
        assert!(refused(|context| {
            context.buffer = 16256;
            context.max_frame = 16384;
        }));
        assert!(!refused(|context| context.max_frame = 10240));
        assert!(refused(|context| context.max_frame = 10241));
    }
}
