//! How much of the stack was used.

/// Bytes of the one stack (`boot.s`). The page below it is not there: a program
/// that needs more ends with an exception. At the end it looks how near it came.
pub const BYTES: usize = 128 << 10;

/// Bytes from the top of the stack to the lowest word that was ever written
/// something other than zero.
#[cfg(target_os = "none")]
#[must_use]
pub fn deepest() -> Option<usize> {
    use core::ptr;
    unsafe extern "C" {
        static boot_stack: u64;
    }
    let bottom = &raw const boot_stack;
    let words = BYTES / 8;
    // SAFETY: words of the stack's memory; volatile, because those in use change
    // under the compiler's eyes.
    let untouched = (0..words).find(|word| unsafe { ptr::read_volatile(bottom.add(*word)) } != 0);
    Some(BYTES - untouched.unwrap_or(words) * 8)
}

/// On a host the stack is somebody else's.
#[cfg(not(target_os = "none"))]
#[must_use]
pub fn deepest() -> Option<usize> {
    None
}
