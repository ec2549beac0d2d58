//! Bit ranges of 64-bit words in the notation of the reference.
//!
//! `bits(q24, 37, 32)` is the field that a table calls "q24 \[37:32\]". The engine decodes with
//! these functions and with nothing from the drivers, so that a wrong field in a driver is not
//! repeated here.

/// The mask of bits \[high:low\].
pub(crate) const fn mask(high: u32, low: u32) -> u64 {
    (u64::MAX >> (63 - high)) & (u64::MAX << low)
}

/// The value of bits \[high:low\] of `word`.
pub(crate) const fn bits(word: u64, high: u32, low: u32) -> u64 {
    (word & mask(high, low)) >> low
}

/// Whether bit `n` of `word` is set.
pub(crate) const fn bit(word: u64, n: u32) -> bool {
    word >> n & 1 != 0
}

/// `value` placed in bits \[high:low\]; what does not fit is cut off.
pub(crate) const fn put(value: u64, high: u32, low: u32) -> u64 {
    value << low & mask(high, low)
}

/// A flag as bit `n`.
pub(crate) const fn flag(set: bool, n: u32) -> u64 {
    (set as u64) << n
}

/// `word` with bits \[high:low\] replaced by `value`.
pub(crate) const fn replace(word: u64, value: u64, high: u32, low: u32) -> u64 {
    word & !mask(high, low) | put(value, high, low)
}

/// The low half, for a field of at most 32 bits.
pub(crate) const fn bits32(word: u64, high: u32, low: u32) -> u32 {
    bits(word, high, low) as u32
}

/// A field of at most 16 bits.
pub(crate) const fn bits16(word: u64, high: u32, low: u32) -> u16 {
    bits(word, high, low) as u16
}

/// A field of at most 8 bits.
pub(crate) const fn bits8(word: u64, high: u32, low: u32) -> u8 {
    bits(word, high, low) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_inclusive() {
        assert_eq!(mask(63, 0), u64::MAX);
        assert_eq!(mask(63, 63), 1 << 63);
        assert_eq!(mask(0, 0), 1);
        assert_eq!(bits(0x90_0ba0_0000_0012 << 8, 37, 32), 0);
        assert_eq!(bits(0x8803_0001_0000_0012, 50, 48), 3);
        assert_eq!(put(0x1_0001, 15, 0), 1);
        assert_eq!(replace(u64::MAX, 0, 62, 1), 1 << 63 | 1);
        assert!(bit(1 << 46, 46) && !bit(1 << 46, 45));
        assert_eq!(flag(true, 63) | flag(false, 0), 1 << 63);
    }
}
