//! The stack, which is the kernel's.

/// Bytes of the stack of the program's thread (`USER_STACK_SIZE` in the kernel's
/// `config.rs`).
pub const BYTES: usize = 1 << 20;

/// The kernel does not say how much of it was used.
#[must_use]
pub const fn deepest() -> Option<usize> {
    None
}
