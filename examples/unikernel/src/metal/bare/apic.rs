//! The local APIC: where message-signalled interrupts arrive, and a timer.

use core::ptr;

use e810_hal::Ns;

use super::clock::Uptime;
use crate::interrupts::{FIRST, LINES};
use crate::machine::MachineError;
use crate::{msr, ports};

/// Where the registers are, as after a reset; the program does not move them.
const BASE: usize = 0xfee0_0000;
/// Model-specific register with the base and the mode.
const APIC_BASE: u32 = 0x1b;

const ID: usize = 0x20;
const TASK_PRIORITY: usize = 0x80;
const END_OF_INTERRUPT: usize = 0xb0;
const SPURIOUS_VECTOR: usize = 0xf0;
const LVT_TIMER: usize = 0x320;
const LVT_LINT0: usize = 0x350;
const LVT_LINT1: usize = 0x360;
const TIMER_INITIAL: usize = 0x380;
const TIMER_CURRENT: usize = 0x390;
const TIMER_DIVIDE: usize = 0x3e0;

/// The timer's line: the one behind the card's.
pub(crate) const TIMER_LINE: u32 = LINES as u32;
/// Its processor vector.
pub(crate) const TIMER: u8 = FIRST + LINES;
/// Processor vector of an interrupt that was withdrawn; not acknowledged.
pub(crate) const SPURIOUS: u8 = 0xff;

/// Masked, in an entry of the local vector table.
const MASKED: u32 = 1 << 16;

/// The local APIC of the one processor.
#[derive(Clone, Copy, Debug)]
pub struct LocalApic {
    /// Counts of the timer in a millisecond.
    per_ms: u64,
}

impl LocalApic {
    /// Switches it on, silences the old interrupt controllers, and measures the
    /// timer.
    ///
    /// # Errors
    /// [`MachineError::Apic`] when it is off, elsewhere, or in x2APIC mode.
    ///
    /// # Safety
    /// The caller is the only code on the machine, and interrupts are off.
    pub unsafe fn start(clock: &Uptime) -> Result<Self, MachineError> {
        // SAFETY: every x86_64 processor with an APIC has the register.
        let base = unsafe { msr::read(APIC_BASE) };
        // Bit 11: on; bit 10: x2APIC; the base above them.
        if base & 0xf_ffff_ffff_fc00 != BASE as u64 | 1 << 11 {
            return Err(MachineError::Apic { base });
        }
        // SAFETY: all lines of both 8259s masked: nobody uses them.
        unsafe {
            ports::write8(0x21, 0xff);
            ports::write8(0xa1, 0xff);
        }
        for (register, value) in [
            (LVT_LINT0, MASKED),
            (LVT_LINT1, MASKED),
            (LVT_TIMER, MASKED),
            (TASK_PRIORITY, 0),
            (SPURIOUS_VECTOR, 1 << 8 | u32::from(SPURIOUS)),
            // The bus clock divided by 16.
            (TIMER_DIVIDE, 0b0011),
            (TIMER_INITIAL, u32::MAX),
        ] {
            write(register, value);
        }
        let before = read(TIMER_CURRENT);
        let end = clock.now() + Ns::from_ms(1);
        while clock.now() < end {
            core::hint::spin_loop();
        }
        let per_ms = u64::from(before.saturating_sub(read(TIMER_CURRENT)));
        write(TIMER_INITIAL, 0);
        write(LVT_TIMER, u32::from(TIMER));
        Ok(Self { per_ms })
    }

    /// Where a message has to be written to interrupt this processor; its data
    /// is the vector (edge-triggered, fixed delivery).
    #[must_use]
    pub fn message_address(&self) -> u64 {
        BASE as u64 | u64::from(read(ID) >> 24) << 12
    }

    /// Interrupts once after about `time`, at least one count and as many as the
    /// timer has at most; replaces what was asked before. Zero: never.
    pub fn alarm(&self, time: Ns) {
        let counts = (u128::from(time.0) * u128::from(self.per_ms) / 1_000_000) as u64;
        let counts = counts.clamp(u64::from(time.0 > 0), u32::MAX.into());
        write(TIMER_INITIAL, counts as u32);
    }
}

/// Tells the APIC that an interrupt's handler is done with it.
pub(crate) fn acknowledge() {
    write(END_OF_INTERRUPT, 0);
}

fn read(register: usize) -> u32 {
    // SAFETY: a register of the local APIC, which is mapped uncached (`boot.s`).
    unsafe { ptr::read_volatile(ptr::with_exposed_provenance(BASE + register)) }
}

fn write(register: usize, value: u32) {
    // SAFETY: as in `read`; the program owns the APIC, and no register written
    // here reaches into memory.
    unsafe { ptr::write_volatile(ptr::with_exposed_provenance_mut(BASE + register), value) };
}
