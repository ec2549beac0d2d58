//! Interrupts: a handler that notes which line fired, and who asks for them.
//!
//! A handler does nothing but set a bit and acknowledge. What the interrupt
//! means is found out by the program, which the sleep hands the bits to: so no
//! part of the driver is ever used by two at a time.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::system::idt;

/// Lines for the card: bit n is processor vector [`FIRST`] + n.
pub const LINES: u8 = 8;
/// Processor vector of line 0. The 32 before belong to the processor itself.
pub const FIRST: u8 = 0x40;

/// Lines that fired and were not taken.
static FIRED: AtomicU32 = AtomicU32::new(0);
/// Interrupts of the card.
static COUNT: AtomicU64 = AtomicU64::new(0);

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

    /// Whether there is one at all.
    #[must_use]
    pub const fn any(self) -> bool {
        self.0 != 0
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, those: Self) -> Self {
        Self(self.0 | those.0)
    }

    /// Those of these that are among `those`.
    #[must_use]
    pub const fn among(self, those: Self) -> Self {
        Self(self.0 & those.0)
    }
}

/// Interrupts of the card so far.
#[must_use]
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Those of `lines` that fired since they were taken last. Others stay for the code that
/// asks for them.
pub(crate) fn take(lines: Lines) -> Lines {
    Lines(FIRED.fetch_and(!lines.0, Ordering::Relaxed)).among(lines)
}

/// Handlers of the card's lines, for the processor's table.
pub(crate) const HANDLERS: [extern "C" fn(); LINES as usize] = [
    handler::<0>,
    handler::<1>,
    handler::<2>,
    handler::<3>,
    handler::<4>,
    handler::<5>,
    handler::<6>,
    handler::<7>,
];

/// Called by the handlers, with interrupts off.
extern "C" fn fired(line: u32) {
    FIRED.fetch_or(1 << line, Ordering::Relaxed);
    if line < u32::from(LINES) {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
    idt::handled();
}

/// Keeps what the handler may change, and calls it. The processor has aligned
/// the stack to 16 bytes and pushed five words; nine more keep it aligned for a
/// call.
#[unsafe(naked)]
pub(crate) extern "C" fn handler<const LINE: u32>() {
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
        idt::keep_vectors!(),
        "cld",
        "mov edi, {line}",
        "call {fired}",
        idt::restore_vectors!(),
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
