//! Fields of a datagram: runs of bits, counted from the highest bit of byte 0. All are big-endian
//! (cm-path 0).

use crate::Mad;

/// The bits of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits {
    first: usize,
    count: usize,
}

impl Bits {
    /// `count` bits from bit `high` (7 is the highest) of a byte on.
    pub(crate) const fn new(byte: usize, high: usize, count: usize) -> Self {
        assert!(high < 8 && byte * 8 + 7 - high + count <= 8 * size_of::<Mad>());
        Self {
            first: byte * 8 + 7 - high,
            count,
        }
    }

    /// Bits after the field in its last byte.
    const fn tail(self) -> usize {
        7 - (self.first + self.count - 1) % 8
    }

    fn bytes(self, mad: &Mad) -> &[u8] {
        let end = (self.first + self.count).div_ceil(8);
        mad.get(self.first / 8..end).unwrap_or_default()
    }

    fn bytes_mut(self, mad: &mut Mad) -> &mut [u8] {
        let end = (self.first + self.count).div_ceil(8);
        mad.get_mut(self.first / 8..end).unwrap_or_default()
    }

    /// A field of at most 64 bits; one that does not begin or end with a byte has at most 57.
    fn number(self, mad: &Mad) -> u64 {
        let mut value = 0;
        for byte in self.bytes(mad) {
            value = value << 8 | u64::from(*byte);
        }
        value >> self.tail() & self.mask()
    }

    const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.count)
    }

    /// Writes the low bits of a number; the others do not fit the field.
    fn set_number(self, mad: &mut Mad, value: u64) {
        let (mut value, mut mask) = (
            (value & self.mask()) << self.tail(),
            self.mask() << self.tail(),
        );
        for byte in self.bytes_mut(mad).iter_mut().rev() {
            *byte = *byte & !(mask as u8) | value as u8;
            value >>= 8;
            mask >>= 8;
        }
    }
}

/// What a field holds.
pub(crate) trait Value: Sized {
    fn read(mad: &Mad, bits: Bits) -> Self;
    fn write(&self, mad: &mut Mad, bits: Bits);
}

macro_rules! numbers {
    ($($number:ty),+) => { $(
        impl Value for $number {
            fn read(mad: &Mad, bits: Bits) -> Self {
                bits.number(mad) as Self
            }

            fn write(&self, mad: &mut Mad, bits: Bits) {
                bits.set_number(mad, u64::from(*self));
            }
        }
    )+ };
}

numbers!(u8, u16, u32, u64);

impl Value for bool {
    fn read(mad: &Mad, bits: Bits) -> Self {
        bits.number(mad) != 0
    }

    fn write(&self, mad: &mut Mad, bits: Bits) {
        bits.set_number(mad, u64::from(*self));
    }
}

impl<const N: usize> Value for [u8; N] {
    fn read(mad: &Mad, bits: Bits) -> Self {
        let found = bits.bytes(mad).first_chunk();
        found.copied().unwrap_or([0; N])
    }

    fn write(&self, mad: &mut Mad, bits: Bits) {
        for (into, byte) in bits.bytes_mut(mad).iter_mut().zip(self) {
            *into = *byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_changes_no_other_bit() {
        for (byte, high, count) in [
            (0, 7, 64),
            (3, 7, 24),
            (9, 7, 20),
            (9, 3, 20),
            (255, 0, 1),
            (254, 4, 13),
            (20, 6, 57),
        ] {
            let bits = Bits::new(byte, high, count);
            for fill in [0, 0xFF] {
                let mut mad = [fill; 256];
                let value = 0xA5C3_96E1_0F2D_4B87 & bits.mask();
                value.write(&mut mad, bits);
                assert_eq!(u64::read(&mad, bits), value);
                let none = if fill == 0 { 0 } else { bits.mask() };
                none.write(&mut mad, bits);
                assert_eq!(mad, [fill; 256], "{bits:?}");
            }
        }
    }
}
