//! Register values of a card after each reset, as its report has them.

use std::collections::BTreeMap;

use e810_card::State;
use e810_hal::RegOffset;
use e810_hal::regs;

/// Values by the state in which they were read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RecordedRegisters {
    states: BTreeMap<State, Vec<(u32, u32)>>,
}

impl RecordedRegisters {
    pub(crate) fn new(states: BTreeMap<State, Vec<(u32, u32)>>) -> Self {
        Self { states }
    }

    /// After a reset of that kind.
    pub(super) fn after(&self, state: State) -> Option<&[(u32, u32)]> {
        self.states.get(&state).map(Vec::as_slice)
    }

    /// After power-up: what was read first.
    pub(super) fn powered(&self) -> &[(u32, u32)] {
        let first = self.states.values().next();
        first.map_or(&[], Vec::as_slice)
    }

    /// The value of a register that was read first.
    pub(crate) fn first(&self, off: RegOffset) -> Option<u32> {
        let all = self.powered().iter();
        all.rev()
            .find(|(at, _)| *at == off.get())
            .map(|(_, value)| *value)
    }
}

/// Whether every function of the card has a value of its own.
pub(super) fn is_of_one_function(off: RegOffset) -> bool {
    [
        regs::PF_FUNC_RID.off(),
        regs::PFGEN_PORTNUM.off(),
        regs::PFINT_ALLOC.off(),
        regs::PFINT_ALLOC_PCI.off(),
    ]
    .contains(&off)
        || regs::GLINT_VECT2FUNC.locate(off).is_some()
}

/// Whether the model counts or computes the value, so that what was recorded holds only at
/// the beginning.
pub(super) fn is_counted(off: RegOffset) -> bool {
    // Counts of resets, and that one is under way.
    off == regs::GLGEN_RSTAT.off()
}

/// Whether the model keeps the value elsewhere than among the registers: what was recorded
/// is shown until the register is written.
pub(super) fn is_kept_elsewhere(off: RegOffset) -> bool {
    regs::GLINT_DYN_CTL.locate(off).is_some()
        || regs::GLINT_ITR.locate(off).is_some()
        || regs::GLINT_RATE.locate(off).is_some()
}
