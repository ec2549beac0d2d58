//! The register file: values, access classes and reset domains.
//!
//! Side effects of registers are in [`bar`](crate::bar); this module only stores values. Offsets,
//! fields and reset sources come from [`e810_hal::regs::ALL`].

mod cold;
mod domain;
pub(crate) mod lan;
mod lookup;
mod recorded;
mod warm;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use e810_card::State;
use e810_hal::RegOffset;
use e810_hal::bus::{ItrIndex, Vector};
use e810_hal::reg::AccessKind;
use e810_hal::regs::{self, Element};

pub(crate) use cold::{Start, switch_input_open};
pub use domain::ResetSource;
use lookup::find_element;
pub(crate) use recorded::RecordedRegisters;
pub(crate) use warm::Identity;

/// Value of a register without a readable value; a driver that uses it fails visibly.
pub(crate) const POISON: u32 = 0xdead_beef;

/// Second addresses of the PFHMC registers, and the first addresses (control-path 2.3).
const FPMAT: std::ops::Range<u32> = 0x10_0000..0x10_0600;
const FPMAT_TO_PFHMC: u32 = 0x42_0000;

/// The offset under which the value of a register is kept: one for both addresses of a register
/// that has two.
fn canonical(off: RegOffset) -> u32 {
    let off = off.get();
    if FPMAT.contains(&off) {
        off + FPMAT_TO_PFHMC
    } else {
        off
    }
}

/// Values of all registers of one function.
#[derive(Debug)]
pub(crate) struct RegisterFile {
    /// What firmware loads after power-up.
    initial: BTreeMap<u32, u32>,
    /// A card's own values after each reset, and whether this function is the recorded one.
    recorded: Option<(Arc<RecordedRegisters>, bool)>,
    /// Recorded values of registers that are kept elsewhere; each is used until its register is
    /// written.
    shown: BTreeMap<u32, u32>,
    /// Registers that the driver has written since they were cleared, where that matters.
    written: BTreeSet<u32>,
    /// Only registers that are not zero or were written.
    values: BTreeMap<u32, u32>,
}

impl RegisterFile {
    /// The registers after power-up, or those of a function whose LAN side is up.
    pub(crate) fn new(identity: Identity, start: Start) -> Self {
        let initial: BTreeMap<u32, u32> = start.values(&identity).into_iter().collect();
        Self {
            values: initial.clone(),
            initial,
            recorded: None,
            shown: BTreeMap::new(),
            written: BTreeSet::new(),
        }
    }

    /// Takes over the values of a card's report. `own`: the values are of this function, not of
    /// another function of its card.
    pub(crate) fn record(&mut self, recorded: Arc<RecordedRegisters>, own: bool) {
        for (off, value) in recorded.powered() {
            let Some(at) = RegOffset::try_new(*off) else {
                continue;
            };
            if own || !recorded::is_of_one_function(at) {
                put(&mut self.initial, canonical(at), *value);
            }
        }
        self.values = self.initial.clone();
        self.recorded = Some((recorded, own));
        self.show(State::Opened);
    }

    /// Sets the registers to the report's values in `state`, except those that the driver has
    /// written and that the reset does not clear. Returns false if the report has no such state.
    pub(crate) fn show(&mut self, state: State) -> bool {
        let Some((recorded, own)) = self.recorded.clone() else {
            return false;
        };
        let Some(values) = recorded.after(state) else {
            return false;
        };
        for (off, value) in values {
            let Some(at) = RegOffset::try_new(*off) else {
                continue;
            };
            let is_kept = recorded::is_counted(at) || self.written.contains(&canonical(at));
            if is_kept || !own && recorded::is_of_one_function(at) {
                continue;
            }
            match recorded::is_kept_elsewhere(at) {
                true => put(&mut self.shown, *off, *value),
                false => put(&mut self.values, canonical(at), *value),
            }
        }
        true
    }

    /// The recorded value of a register that is kept elsewhere and was not written.
    pub(crate) fn shown(&self, off: RegOffset) -> Option<u32> {
        self.shown.get(&off.get()).copied()
    }

    /// A register of a vector is written: from now on the model's values apply to all registers of
    /// that vector.
    pub(crate) fn hide(&mut self, vector: Vector) {
        if self.recorded.is_none() {
            return;
        }
        let itrs = (0..=2).filter_map(ItrIndex::new);
        let itrs = itrs.map(|itr| regs::GLINT_ITR.at(itr, vector).off());
        let others = [
            regs::GLINT_DYN_CTL.at(vector).off(),
            regs::GLINT_RATE.at(vector).off(),
        ];
        for off in itrs.chain(others) {
            self.shown.remove(&off.get());
            self.written.insert(off.get());
        }
    }

    /// The register at `off`, if the sources name one.
    pub(crate) fn element(&self, off: RegOffset) -> Option<Element> {
        find_element(off)
    }

    pub(crate) fn get(&self, off: RegOffset) -> u32 {
        self.values.get(&canonical(off)).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, off: RegOffset, value: u32) {
        self.values.insert(canonical(off), value);
    }

    /// The driver writes the register.
    pub(crate) fn write(&mut self, off: RegOffset, value: u32) {
        self.set(off, value);
        if self.recorded.is_some() {
            self.written.insert(canonical(off));
        }
    }

    /// A reset clears the registers of its domain.
    pub(crate) fn clear(&mut self, source: ResetSource) {
        self.values.retain(|off, _| !is_cleared(*off, source));
        self.shown.clear();
        self.written.retain(|off| !is_cleared(*off, source));
    }

    /// After the reset, restores the values that firmware loads, and on a warm function also those
    /// that the LAN side sets up. The done bits of GLNVM_ULD are power-up values, but they fall and
    /// rise with every global reset.
    pub(crate) fn load_again(&mut self, source: ResetSource) {
        let done_bits = regs::GLNVM_ULD.off().get();
        for (off, value) in &self.initial {
            if is_cleared(*off, source) || *off == done_bits {
                self.values.insert(*off, *value);
            }
        }
    }
}

/// Only non-zero values are kept.
fn put(values: &mut BTreeMap<u32, u32>, off: u32, value: u32) {
    match value {
        0 => values.remove(&off),
        _ => values.insert(off, value),
    };
}

fn is_cleared(off: u32, source: ResetSource) -> bool {
    let element = RegOffset::try_new(off).and_then(find_element);
    element.is_some_and(|element| source.clears(element.register.reset))
}

/// The named bits of the register.
pub(crate) fn named_bits(element: &Element) -> u32 {
    let fields = element.register.fields.iter();
    fields.fold(0, |bits, field| {
        let width = field.hi - field.lo + 1;
        bits | (u32::MAX >> (u32::BITS - width)) << field.lo
    })
}

/// Whether the register has a meaning when read.
pub(crate) fn is_readable(element: &Element) -> bool {
    element.register.access != AccessKind::WriteOnly
}

/// Both halves of the LAN side's 64-bit counter at `offset` (`ice/ice_common.c ice_stat_update40`
/// reads them in one access).
pub(crate) fn counter_at(offset: u64) -> Option<(RegOffset, RegOffset)> {
    let low = RegOffset::try_new(u32::try_from(offset).ok()?)?;
    let high = RegOffset::try_new(low.get() + 4)?;
    let (first, second) = (lan::find(low)?, lan::find(high)?);
    let is_pair = first.register == second.register && offset.is_multiple_of(8);
    is_pair.then_some((low, high))
}

/// Whether drivers write the register.
pub(crate) fn is_writable(element: &Element) -> bool {
    // The access class says what this project's driver does. The LAN driver also enables flow
    // director, and FreeBSD's driver of the engine sets a threshold.
    [
        regs::PFQF_FD_ENA.off().get(),
        regs::GL_RDPU_CNTRL.off().get(),
    ]
    .contains(&element.register.offset)
        || element.register.access != AccessKind::ReadOnly
}

/// Human-readable name of the register at `off`, or the offset.
pub(crate) fn name(off: RegOffset) -> String {
    match find_element(off) {
        Some(element) => element.to_string(),
        None => match off.get().checked_sub(regs::DOORBELL_PAGE) {
            Some(at) if at < regs::DOORBELL_PAGE_LEN => format!("DOORBELL_PAGE+{at:#x}"),
            _ => off.to_string(),
        },
    }
}

#[cfg(test)]
mod tests;
