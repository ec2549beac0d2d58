//! Queries of devices, ports and their tables.

use core::ptr;

pub mod device;
pub mod gid;
pub mod port;

/// Writes `size` bytes at `to`: as much of `whole` as fits, then zeroes.
///
/// # Safety
/// `size` bytes can be written at `to`.
unsafe fn fill<T: Copy>(whole: &T, to: *mut T, size: usize) {
    let (to, whole) = (to.cast::<u8>(), ptr::from_ref(whole).cast::<u8>());
    let known = size.min(size_of::<T>());
    // SAFETY: the caller's; `known` is within both.
    unsafe {
        to.write_bytes(0, size);
        to.copy_from_nonoverlapping(whole, known);
    }
}
