//! The way out: QEMU's debug exit device, and what a panic does.

use crate::ports;

/// Port of `-device isa-debug-exit,iobase=0xf4`.
const DEBUG_EXIT: u16 = 0xf4;

/// How the program ended; QEMU's exit status is twice the number plus 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Code {
    /// Everything was as it should be.
    Good = 0,
    /// The program said what was not.
    Failed = 1,
    /// It panicked.
    #[cfg(target_os = "none")]
    Panic = 2,
    /// The processor met something it could not do.
    Exception = 3,
}

/// Ends the machine, or stops the processor where nobody can end it.
pub(crate) fn leave(code: Code) -> ! {
    // SAFETY: where there is no such device nobody listens at this port.
    unsafe { ports::write8(DEBUG_EXIT, code as u8) };
    loop {
        // SAFETY: without interrupts the processor stays where it is.
        unsafe { core::arch::asm!("cli", "hlt", options(nomem, nostack)) };
    }
}

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    crate::say!("PANIC {info}");
    leave(Code::Panic)
}
