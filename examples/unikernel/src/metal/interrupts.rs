//! Interrupts: a handler that notes which line fired, and a sleep that misses
//! none.
//!
//! A handler does nothing but set a bit and acknowledge. What the interrupt
//! means is found out by the program, which the sleep hands the bits to: so no
//! part of the driver is ever used by two at a time.

use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use e810_hal::Ns;

use crate::apic::{self, LocalApic};
use crate::exit::{self, Code};
use crate::say;

/// Lines for the card: bit n is processor vector [`FIRST`] + n.
pub const LINES: u8 = 8;
/// Processor vector of line 0. The 32 before belong to the processor itself.
pub const FIRST: u8 = 0x40;
/// Processor vector of the timer: the line behind the card's.
pub(crate) const TIMER: u8 = FIRST + LINES;
/// Processor vector of an interrupt that was withdrawn; not acknowledged.
pub(crate) const SPURIOUS: u8 = 0xff;

const TIMER_BIT: u32 = 1 << LINES;

/// Lines that fired and were not taken.
static FIRED: AtomicU32 = AtomicU32::new(0);
/// Interrupts of the card.
static COUNT: AtomicU64 = AtomicU64::new(0);
/// The processor's table of 256 gates of two words.
static TABLE: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];

/// Some lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lines(u32);

impl Lines {
    /// The `count` lines from `first` on.
    #[must_use]
    pub const fn range(first: u8, count: u8) -> Self {
        Self((1_u32 << count).wrapping_sub(1) << first)
    }

    /// Whether `line` is one of them.
    #[must_use]
    pub const fn has(self, line: u8) -> bool {
        self.0 >> line & 1 != 0
    }
}

/// Interrupts of the card so far.
#[must_use]
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Fills the processor's table and tells it.
///
/// # Safety
/// The caller is the only code on the machine, and interrupts are off.
pub unsafe fn start() {
    for vector in 0..32 {
        set_gate(vector, exception as *const () as u64);
    }
    let stubs: [extern "C" fn(); LINES as usize + 1] = [
        stub::<0>, stub::<1>, stub::<2>, stub::<3>, stub::<4>, stub::<5>, stub::<6>, stub::<7>,
        stub::<8>,
    ];
    for (line, stub) in stubs.into_iter().enumerate() {
        set_gate(usize::from(FIRST) + line, stub as *const () as u64);
    }
    set_gate(usize::from(SPURIOUS), nothing as *const () as u64);

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
}

/// An interrupt gate (interrupts stay off in the handler) for ring 0, code
/// segment 8.
fn set_gate(vector: usize, handler: u64) {
    let low = handler & 0xffff | 8 << 16 | 0x8e << 40 | (handler >> 16 & 0xffff) << 48;
    let words = TABLE.iter().skip(vector * 2);
    for (word, value) in words.zip([low, handler >> 32]) {
        word.store(value, Ordering::Relaxed);
    }
}

/// Takes those of `lines` that fired, and sleeps until one has, but not longer
/// than `limit`: then none is returned. Others stay for who asks for them.
pub fn sleep(apic: &LocalApic, lines: Lines, limit: Ns) -> Lines {
    FIRED.fetch_and(!TIMER_BIT, Ordering::Relaxed);
    apic.alarm(limit);
    loop {
        // SAFETY: nothing comes between the look and the halt; not `nomem`,
        // because handlers write to memory before and after.
        unsafe { asm!("cli", options(nostack)) };
        let fired = FIRED.load(Ordering::Relaxed) & (lines.0 | TIMER_BIT);
        if fired != 0 {
            FIRED.fetch_and(!fired, Ordering::Relaxed);
            // SAFETY: handlers are ready for all that can come.
            unsafe { asm!("sti", options(nostack)) };
            apic.alarm(Ns(0));
            return Lines(fired & lines.0);
        }
        // SAFETY: as above. Interrupts are let in after the instruction behind
        // `sti`, so one that is waiting ends the halt at once.
        unsafe { asm!("sti", "hlt", options(nostack)) };
    }
}

/// Called by the stubs, with interrupts off.
extern "C" fn fired(line: u32) {
    FIRED.fetch_or(1 << line, Ordering::Relaxed);
    if line < u32::from(LINES) {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
    apic::acknowledge();
}

/// Keeps what the handler may change, and calls it. The processor has aligned
/// the stack to 16 bytes and pushed five words; nine more keep it aligned for a
/// call.
#[unsafe(naked)]
extern "C" fn stub<const LINE: u32>() {
    naked_asm!(
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "cld",
        "mov edi, {line}",
        "call {fired}",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "iretq",
        line = const LINE,
        fired = sym fired,
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_function_are_a_range() {
        let lines = Lines::range(4, 4);
        let has: Vec<u8> = (0..32).filter(|line| lines.has(*line)).collect();
        assert_eq!(has, [4, 5, 6, 7]);
    }
}
