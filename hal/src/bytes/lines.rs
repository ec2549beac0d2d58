//! Copies of whole lines of 64 bytes between shared memory and private memory: most bytes of most
//! payloads.
//!
//! Every word of eight bytes is accessed as a whole. With SSE2 one assembly instruction moves two
//! words: the compiler does not join atomic accesses, and accesses that are not atomic must not
//! race. On x86-64 each aligned half of such an access is a single access: it is never split
//! inside eight bytes, because lines of the cache begin at multiples of 64.

use core::ptr::NonNull;

/// Bytes of a line.
pub(super) const LINE: usize = 64;

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod moves {
    use super::{LINE, NonNull};
    use core::arch::asm;

    /// Copies `count` lines, at least one, from `from` to `to`.
    ///
    /// # Safety
    /// Both have that many lines, `from` for loads and `to` for stores, and do not overlap. Of the
    /// two, memory of other threads is aligned to 8 and accessed by words alone.
    unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: all accesses are inside the lines, by the contract: the offset counts up to 0
        // from minus their bytes, and addresses are taken from their ends. A word of eight bytes
        // of aligned memory is loaded and stored as by a relaxed atomic access.
        unsafe {
            asm!(
                "2:",
                "movups {a}, [{from} + {at}]",
                "movups {b}, [{from} + {at} + 16]",
                "movups {c}, [{from} + {at} + 32]",
                "movups {d}, [{from} + {at} + 48]",
                "movups [{to} + {at}], {a}",
                "movups [{to} + {at} + 16], {b}",
                "movups [{to} + {at} + 32], {c}",
                "movups [{to} + {at} + 48], {d}",
                "add {at}, 64",
                "jnz 2b",
                from = in(reg) from.wrapping_add(count.wrapping_mul(LINE)),
                to = in(reg) to.wrapping_add(count.wrapping_mul(LINE)),
                at = inout(reg) count.wrapping_mul(LINE).wrapping_neg() => _,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack),
            );
        }
    }

    pub(in super::super) unsafe fn load(from: NonNull<u8>, into: &mut [[u8; LINE]]) {
        // SAFETY: by the contract of this function; `into` is memory of nobody else.
        unsafe { copy(from.as_ptr(), into.as_mut_ptr().cast(), into.len()) }
    }

    pub(in super::super) unsafe fn store(to: NonNull<u8>, from: &[[u8; LINE]]) {
        // SAFETY: by the contract of this function; nobody else writes `from`.
        unsafe { copy(from.as_ptr().cast(), to.as_ptr(), from.len()) }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
mod moves {
    use super::{LINE, NonNull};
    use core::sync::atomic::{AtomicU64, Ordering};

    /// The words of `count` lines at `start`.
    ///
    /// # Safety
    /// There are that many lines, aligned to 8, valid, and accessed by words alone.
    unsafe fn words<'a>(start: NonNull<u8>, count: usize) -> &'a [[AtomicU64; LINE / 8]] {
        // SAFETY: by the contract.
        unsafe { core::slice::from_raw_parts(start.cast().as_ptr(), count) }
    }

    pub(in super::super) unsafe fn load(from: NonNull<u8>, into: &mut [[u8; LINE]]) {
        // SAFETY: by the contract of this function.
        let lines = unsafe { words(from, into.len()) };
        for (into, line) in into.iter_mut().zip(lines) {
            let (chunks, _) = into.as_chunks_mut::<8>();
            for (chunk, word) in chunks.iter_mut().zip(line) {
                *chunk = word.load(Ordering::Relaxed).to_ne_bytes();
            }
        }
    }

    pub(in super::super) unsafe fn store(to: NonNull<u8>, from: &[[u8; LINE]]) {
        // SAFETY: by the contract of this function.
        let lines = unsafe { words(to, from.len()) };
        for (from, line) in from.iter().zip(lines) {
            let (chunks, _) = from.as_chunks::<8>();
            for (chunk, word) in chunks.iter().zip(line) {
                word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
            }
        }
    }
}

/// Copies the lines at `from` out; `into` has at least one.
///
/// # Safety
/// As many bytes as `into` has are valid at `from`, are aligned to 8, and are accessed by words
/// alone.
pub(super) unsafe fn load(from: NonNull<u8>, into: &mut [[u8; LINE]]) {
    // SAFETY: the same contract.
    unsafe { moves::load(from, into) }
}

/// Copies `from`, at least one line, to the memory at `to`.
///
/// # Safety
/// As for [`load`], and the memory may be written.
pub(super) unsafe fn store(to: NonNull<u8>, from: &[[u8; LINE]]) {
    // SAFETY: the same contract.
    unsafe { moves::store(to, from) }
}
