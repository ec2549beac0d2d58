//! The processor's table of handlers.

use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicU64, Ordering};

use super::apic::{self, SPURIOUS, TIMER, TIMER_LINE};
use super::exit::{self, Code};
use crate::interrupts::{FIRST, HANDLERS, handler};
use crate::machine::MachineError;
use crate::say;

/// What handlers do beyond the general registers: nothing, because the program is
/// compiled without vector registers.
macro_rules! keep_vectors {
    () => {
        ""
    };
}
/// And how they undo it.
macro_rules! restore_vectors {
    () => {
        ""
    };
}
pub(crate) use {keep_vectors, restore_vectors};

/// 256 gates of two words.
static TABLE: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];

/// Fills the table and tells the processor.
///
/// # Errors
/// None: the table is large enough.
///
/// # Safety
/// The caller is the only code on the machine, and interrupts are off.
pub(crate) unsafe fn start() -> Result<(), MachineError> {
    for vector in 0..32 {
        set_gate(vector, exception as *const () as u64, FAULT_STACK);
    }
    for (line, handler) in HANDLERS.into_iter().enumerate() {
        set_gate(usize::from(FIRST) + line, handler as *const () as u64, 0);
    }
    let timer = handler::<TIMER_LINE> as *const () as u64;
    set_gate(usize::from(TIMER), timer, 0);
    set_gate(usize::from(SPURIOUS), nothing as *const () as u64, 0);

    #[repr(C, packed)]
    struct Pointer {
        limit: u16,
        base: u64,
    }
    let pointer = Pointer {
        limit: (size_of_val(&TABLE) - 1) as u16,
        base: TABLE.as_ptr().expose_provenance() as u64,
    };
    // SAFETY: the table is complete for all vectors that can come, and static;
    // its words are only written above.
    unsafe { asm!("lidt [{}]", in(reg) &raw const pointer, options(nostack, readonly)) };
    Ok(())
}

/// The stack of the processor's own exceptions (`boot.s`, IST 1): the one in use
/// may be what it has an exception about.
const FAULT_STACK: u64 = 1;

/// An interrupt gate (interrupts stay off in the handler) for ring 0, code
/// segment 8, and a stack of its own unless `stack` is 0.
fn set_gate(vector: usize, handler: u64, stack: u64) {
    let place = 8 << 16 | stack << 32;
    let low = handler & 0xffff | place | 0x8e << 40 | (handler >> 16 & 0xffff) << 48;
    let words = TABLE.iter().skip(vector * 2);
    for (word, value) in words.zip([low, handler >> 32]) {
        word.store(value, Ordering::Relaxed);
    }
}

/// A handler is done. That it ran has ended the sleep, if there was one.
pub(crate) fn handled() {
    apic::acknowledge();
}

/// For spurious interrupts.
#[unsafe(naked)]
extern "C" fn nothing() {
    naked_asm!("iretq")
}

/// For the processor's own exceptions: says what is on the stack, and leaves.
#[unsafe(naked)]
extern "C" fn exception() {
    naked_asm!(
        "mov rdi, rsp",
        "mov rsi, cr2",
        "and rsp, -16",
        "call {met}",
        "ud2",
        met = sym met_exception,
    )
}

extern "C" fn met_exception(stack: *const [u64; 4], address: u64) -> ! {
    // SAFETY: the processor has pushed at least five words there.
    let stack = unsafe { stack.read() };
    say!("EXCEPTION stack {stack:x?}, address {address:#x}");
    exit::leave(Code::Exception)
}
