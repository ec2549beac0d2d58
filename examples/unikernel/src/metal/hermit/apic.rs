//! The local APIC, which the kernel has started in x2APIC mode: its registers are
//! model-specific registers, and its timer is the kernel's.

use super::clock::Uptime;
use crate::machine::MachineError;
use crate::msr;

/// Model-specific register with the base and the mode.
const APIC_BASE: u32 = 0x1b;
const ID: u32 = 0x802;
const END_OF_INTERRUPT: u32 = 0x80b;

/// The local APIC of the processor that the program started on.
#[derive(Clone, Copy, Debug)]
pub struct LocalApic {
    id: u8,
}

impl LocalApic {
    /// Finds out where messages have to go.
    ///
    /// # Errors
    /// [`MachineError::X2Apic`] when it is off, in xAPIC mode, or has a number
    /// that a message's address has no room for.
    ///
    /// # Safety
    /// As for a bare machine, although nothing is changed here.
    pub unsafe fn start(_: &Uptime) -> Result<Self, MachineError> {
        // SAFETY: every x86_64 processor with an APIC has the register.
        let base = unsafe { msr::read(APIC_BASE) };
        // Bit 11: on; bit 10: x2APIC.
        if base & 0b11 << 10 != 0b11 << 10 {
            return Err(MachineError::X2Apic { base });
        }
        // SAFETY: in x2APIC mode the register is there.
        let id = unsafe { msr::read(ID) };
        match u8::try_from(id) {
            Ok(id) => Ok(Self { id }),
            Err(_) => Err(MachineError::X2Apic { base }),
        }
    }

    /// Where a message has to be written to interrupt this processor; its data
    /// is the vector (edge-triggered, fixed delivery).
    #[must_use]
    pub fn message_address(&self) -> u64 {
        0xfee0_0000 | u64::from(self.id) << 12
    }
}

/// Tells the APIC that an interrupt's handler is done with it.
pub(crate) fn acknowledge() {
    // SAFETY: called by handlers, which run only after `start` has seen the mode.
    unsafe { msr::write(END_OF_INTERRUPT, 0) };
}
