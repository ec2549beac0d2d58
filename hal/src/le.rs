//! Byte order: the only place where host order meets the device's.
//!
//! Every structure the E810 reads or writes is little-endian (control-path 0).
//! Rings, contexts and buffers go through [`crate::words`], which is the only caller of these two
//! functions.

use core::sync::atomic::{AtomicU64, Ordering};

/// Stores `value` as the device reads it.
#[inline(always)]
pub(crate) fn store(word: &AtomicU64, value: u64, order: Ordering) {
    word.store(value.to_le(), order);
}

/// Loads what the device wrote as a host value.
#[inline(always)]
pub(crate) fn load(word: &AtomicU64, order: Ordering) -> u64 {
    u64::from_le(word.load(order))
}
