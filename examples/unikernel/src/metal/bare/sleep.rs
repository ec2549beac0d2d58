//! A sleep that misses no interrupt.

use core::arch::asm;

use e810_hal::Ns;

use super::apic::{LocalApic, TIMER_LINE};
use crate::interrupts::{self, Lines};

/// Takes those of `lines` that fired, and sleeps until one has, but not longer
/// than `limit`: then none is returned.
pub(crate) fn sleep(apic: &LocalApic, lines: Lines, limit: Ns) -> Lines {
    let timer = Lines::range(TIMER_LINE as u8, 1);
    interrupts::take(timer);
    apic.alarm(limit);
    loop {
        // SAFETY: nothing comes between the look and the halt; not `nomem`,
        // because handlers write to memory before and after.
        unsafe { asm!("cli", options(nostack)) };
        let fired = interrupts::take(lines.and(timer));
        if fired.any() {
            // SAFETY: handlers are ready for all that can come.
            unsafe { asm!("sti", options(nostack)) };
            apic.alarm(Ns(0));
            return fired.among(lines);
        }
        // SAFETY: as above. Interrupts are let in after the instruction behind
        // `sti`, so one that is waiting ends the halt at once.
        unsafe { asm!("sti", "hlt", options(nostack)) };
    }
}
