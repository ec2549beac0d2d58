//! I/O ports.

use core::arch::asm;

/// Reads a byte.
///
/// # Safety
/// The port belongs to the caller, and reading it does no harm there.
pub(crate) unsafe fn read8(port: u16) -> u8 {
    let value;
    // SAFETY: the caller's promise; the instruction touches no memory.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack)) };
    value
}

/// Writes a byte.
///
/// # Safety
/// The port belongs to the caller, and the value does no harm there.
#[cfg(not(target_os = "hermit"))]
pub(crate) unsafe fn write8(port: u16, value: u8) {
    // SAFETY: the caller's promise. Not `nomem`: what a device does may show in
    // memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack)) };
}

/// Writes 16 bits.
///
/// # Safety
/// The port belongs to the caller, and the value does no harm there.
#[cfg(target_os = "hermit")]
pub(crate) unsafe fn write16(port: u16, value: u16) {
    // SAFETY: as in `write8`.
    unsafe { asm!("out dx, ax", in("dx") port, in("ax") value, options(nostack)) };
}

/// Reads 32 bits.
///
/// # Safety
/// As [`read8`].
pub(crate) unsafe fn read32(port: u16) -> u32 {
    let value;
    // SAFETY: as in `read8`.
    unsafe { asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack)) };
    value
}

/// Writes 32 bits.
///
/// # Safety
/// The port belongs to the caller, and the value does no harm there.
pub(crate) unsafe fn write32(port: u16, value: u32) {
    // SAFETY: as in `write8`.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack)) };
}
