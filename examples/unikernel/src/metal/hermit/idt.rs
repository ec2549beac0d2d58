//! Handlers of the card's lines, in the kernel's table.
//!
//! The kernel has a gate for each vector above 31, which leads to a handler that
//! counts and acknowledges. Those of the card's lines are pointed at our handlers;
//! all else in them stays: the segment, and the stack that interrupts run on,
//! which has to be another one than the program's because of its red zone.

use core::arch::asm;
use core::ptr;

use super::{apic, sleep};
use crate::interrupts::{FIRST, HANDLERS};
use crate::machine::MachineError;

/// What handlers do beyond the general registers. Unlike the kernel, program and
/// std use vector registers, in handlers as elsewhere; compiled for the baseline,
/// they leave what is above 128 bits alone.
macro_rules! keep_vectors {
    () => {
        "sub rsp, 512\nfxsave64 [rsp]"
    };
}
/// And how they undo it.
macro_rules! restore_vectors {
    () => {
        "fxrstor64 [rsp]\nadd rsp, 512"
    };
}
pub(crate) use {keep_vectors, restore_vectors};

/// Points the gates at the handlers.
///
/// # Errors
/// [`MachineError::Gates`] when the table is too short.
///
/// # Safety
/// Called once, before any of the lines can fire.
pub(crate) unsafe fn start() -> Result<(), MachineError> {
    #[repr(C, packed)]
    struct Pointer {
        limit: u16,
        base: u64,
    }
    let mut pointer = Pointer { limit: 0, base: 0 };
    // SAFETY: writes the ten bytes of `pointer`.
    unsafe { asm!("sidt [{}]", in(reg) &raw mut pointer, options(nostack)) };
    let table: *mut [u64; 2] = ptr::with_exposed_provenance_mut(pointer.base as usize);
    let limit = pointer.limit;
    if usize::from(limit) + 1 < (usize::from(FIRST) + HANDLERS.len()) * size_of::<[u64; 2]>() {
        return Err(MachineError::Gates { limit });
    }
    for (line, handler) in HANDLERS.into_iter().enumerate() {
        let handler = handler as *const () as u64;
        // SAFETY: an entry of the table as the limit says, which the kernel fills
        // at its start and leaves alone; nothing fires there yet.
        unsafe {
            let gate = table.add(usize::from(FIRST) + line);
            let [low, _] = gate.read_volatile();
            let low =
                low & !(0xffff << 48 | 0xffff) | handler & 0xffff | (handler >> 16 & 0xffff) << 48;
            gate.write_volatile([low, handler >> 32]);
        }
    }
    Ok(())
}

/// A handler is done.
pub(crate) fn handled() {
    sleep::end();
    apic::acknowledge();
}
