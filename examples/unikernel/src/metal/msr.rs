//! Model-specific registers.

use core::arch::asm;

/// Reads one.
///
/// # Safety
/// The processor has it.
pub(crate) unsafe fn read(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high, options(nomem, nostack));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Writes one.
///
/// # Safety
/// The processor has it, and the value does no harm there.
#[cfg(target_os = "hermit")]
pub(crate) unsafe fn write(register: u32, value: u64) {
    let (low, high) = (value as u32, (value >> 32) as u32);
    // SAFETY: the caller's promise; not `nomem`, so that what was written before
    // it stays before it.
    unsafe { asm!("wrmsr", in("ecx") register, in("eax") low, in("edx") high, options(nostack)) };
}
