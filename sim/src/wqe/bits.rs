//! Bit ranges in the notation of the reference: `[hi:lo]` of a 64-bit word.

/// The value of bits `[hi:lo]`. Both are constants in the caller, with `lo <= hi < 64`.
pub(super) const fn bits(word: u64, hi: u32, lo: u32) -> u64 {
    word >> lo & mask(hi, lo) >> lo
}

/// The low 32 bits of the value of `[hi:lo]`.
pub(super) const fn bits32(word: u64, hi: u32, lo: u32) -> u32 {
    // Callers use ranges of at most 32 bits.
    bits(word, hi, lo) as u32
}

pub(super) const fn bit(word: u64, index: u32) -> bool {
    word >> index & 1 != 0
}

/// Ones in `[hi:lo]`.
pub(super) const fn mask(hi: u32, lo: u32) -> u64 {
    u64::MAX >> (63 - hi) & u64::MAX << lo
}

/// `value` placed at `[hi:lo]`; bits that do not fit are lost, as in the hardware field.
pub(super) const fn place(value: u64, hi: u32, lo: u32) -> u64 {
    value << lo & mask(hi, lo)
}
