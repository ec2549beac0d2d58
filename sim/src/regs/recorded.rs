//! Register values of a card after each reset, from its report.

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

    /// The state after a reset of that kind.
    pub(super) fn after(&self, state: State) -> Option<&[(u32, u32)]> {
        self.states.get(&state).map(Vec::as_slice)
    }

    /// The state after power-up: the first values read.
    pub(super) fn powered(&self) -> &[(u32, u32)] {
        let first = self.states.values().next();
        first.map_or(&[], Vec::as_slice)
    }

    /// The first value read of a register.
    pub(crate) fn first(&self, off: RegOffset) -> Option<u32> {
        let all = self.powered().iter();
        all.rev()
            .find(|(at, _)| *at == off.get())
            .map(|(_, value)| *value)
    }
}

/// Whether every function of the card has its own value.
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

/// Whether the model counts or computes the value, so that the recorded value holds only at the
/// beginning.
pub(super) fn is_counted(off: RegOffset) -> bool {
    // Counts of resets, and the state of a reset in progress.
    off == regs::GLGEN_RSTAT.off()
}

/// Whether the model keeps the value outside the register file: the recorded value is shown until
/// the register is written.
pub(super) fn is_kept_elsewhere(off: RegOffset) -> bool {
    regs::GLINT_DYN_CTL.locate(off).is_some()
        || regs::GLINT_ITR.locate(off).is_some()
        || regs::GLINT_RATE.locate(off).is_some()
}
