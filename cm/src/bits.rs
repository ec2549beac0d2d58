//! Fields of a datagram: runs of bits, counted from the highest bit of byte 0. All are big-endian
//! (cm-path 0).

use crate::Mad;
use crate::ip::copy;

/// The bits of a field: its first, and in the low half how many there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits(u32);

impl Bits {
    /// `count` bits from bit `high` (7 is the highest) of a byte on.
    pub(crate) const fn new(byte: usize, high: usize, count: usize) -> Self {
        assert!(high < 8 && byte * 8 + 7 - high + count <= 8 * size_of::<Mad>());
        Self((byte * 8 + 7 - high) as u32 * 0x1_0000 + count as u32)
    }

    const fn first(self) -> usize {
        (self.0 >> 16) as usize
    }

    const fn end(self) -> usize {
        self.first() + (self.0 & 0xFFFF) as usize
    }

    /// Bits after the field in its last byte.
    const fn tail(self) -> u32 {
        7 - (self.end() as u32 - 1) % 8
    }

    fn bytes(self, mad: &Mad) -> &[u8] {
        let range = self.first() / 8..self.end().div_ceil(8);
        mad.get(range).unwrap_or_default()
    }

    fn bytes_mut(self, mad: &mut Mad) -> &mut [u8] {
        let range = self.first() / 8..self.end().div_ceil(8);
        mad.get_mut(range).unwrap_or_default()
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
        u64::MAX >> (64 - (self.0 & 0xFFFF))
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

/// A datagram whose fields are read or written.
pub(crate) enum Way<'a> {
    From(&'a Mad),
    Into(&'a mut Mad),
}

/// The fields of a datagram, one after the other. They are read and written by the same list: that
/// is half the code of two.
pub(crate) struct Fields<'a> {
    way: Way<'a>,
    list: core::slice::Iter<'static, Bits>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(way: Way<'a>, list: &'static [Bits]) -> Self {
        let list = list.iter();
        Self { way, list }
    }

    /// The number of the next field, or the one that it becomes.
    #[inline(never)]
    fn number(&mut self, value: u64) -> u64 {
        let Some(bits) = self.list.next() else {
            return value;
        };
        match &mut self.way {
            Way::From(mad) => bits.number(mad),
            Way::Into(mad) => {
                bits.set_number(mad, value);
                value
            }
        }
    }

    /// The bytes of the next field, or those that it becomes.
    #[inline(never)]
    fn bytes(&mut self, value: &mut [u8]) {
        let Some(bits) = self.list.next() else {
            return;
        };
        match &mut self.way {
            Way::From(mad) => copy(value, bits.bytes(mad)),
            Way::Into(mad) => copy(bits.bytes_mut(mad), value),
        }
    }
}

/// What a field holds.
pub(crate) trait Value: Sized {
    const ZERO: Self;

    /// Reads it from the next field, or writes it there.
    fn pass(&mut self, fields: &mut Fields<'_>);
}

macro_rules! numbers {
    ($($number:ty),+) => { $(
        impl Value for $number {
            const ZERO: Self = 0;

            #[inline(never)]
            fn pass(&mut self, fields: &mut Fields<'_>) {
                *self = fields.number(u64::from(*self)) as Self;
            }
        }
    )+ };
}

numbers!(u8, u16, u32, u64);

impl Value for bool {
    const ZERO: Self = false;

    #[inline(never)]
    fn pass(&mut self, fields: &mut Fields<'_>) {
        *self = fields.number(u64::from(*self)) != 0;
    }
}

impl<const N: usize> Value for [u8; N] {
    const ZERO: Self = [0; N];

    fn pass(&mut self, fields: &mut Fields<'_>) {
        fields.bytes(self);
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
                bits.set_number(&mut mad, value);
                assert_eq!(bits.number(&mad), value);
                let none = if fill == 0 { 0 } else { bits.mask() };
                bits.set_number(&mut mad, none);
                assert_eq!(mad, [fill; 256], "{bits:?}");
            }
        }
    }
}
