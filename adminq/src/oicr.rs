//! Miscellaneous interrupt causes (OICR): errors of the engine and of the card, and the
//! AdminQ's events (control-path 2.6).
//!
//! They are rare, so they share the vector of the asynchronous event queue, and a function with a
//! single vector works. The handler of that vector reads the causes first; reading clears them.

use bitflags::bitflags;
use e810_hal::bus::{Bus, ItrIndex, Vector};
use e810_hal::clock::live;
use e810_hal::regs::{
    DYN_CTL_OTHER_CAUSE_SETUP, GLINT_DYN_CTL, GLINT_ITR, GLPE_CRITERR, ITR_UNIT_US, OICR_ENABLED,
    PFINT_FW_CTL, PFINT_OICR, PFINT_OICR_CTL, PFINT_OICR_ENA,
};

use crate::error::Result;

mod errors;

pub use errors::{CriticalError, Details, HmcError};

/// Least time between two interrupts for these causes, in µs: 8000 a second.
const INTERVAL_US: u32 = 124;

bitflags! {
    /// Causes, as in PFINT_OICR. Bits without a name are kept.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Causes: u32 {
        /// Memory error.
        const ECC_ERR = 1 << 16;
        /// A malicious driver was detected.
        const MAL_DETECT = 1 << 19;
        /// A reset of the whole card begins.
        const GRST = 1 << 20;
        /// PCI error.
        const PCI_EXCEPTION = 1 << 21;
        /// The link changed.
        const LINK_STAT_CHANGE = 1 << 25;
        /// The host memory cache failed.
        const HMC_ERR = 1 << 26;
        /// A push page failed.
        const PE_PUSH = 1 << 27;
        /// The engine reports a critical error.
        const PE_CRITERR = 1 << 28;
        /// A VF had a function-level reset.
        const VFLR = 1 << 29;
    }
}

/// What causes require.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum RequiredReset {
    /// Nothing.
    None,
    /// A reset of the function.
    ResetFunction,
    /// To stop, and to come up again once the card has been reset: the reset is on its way.
    CardResets,
}

impl Causes {
    /// What the causes require. `critical` is GLPE_CRITERR if [`Causes::PE_CRITERR`] is among
    /// them.
    #[must_use]
    pub const fn required_reset(self, critical: u32) -> RequiredReset {
        if self.contains(Self::GRST) {
            return RequiredReset::CardResets;
        }
        let broken = Self::HMC_ERR
            .union(Self::PE_PUSH)
            .union(Self::ECC_ERR)
            .union(Self::PCI_EXCEPTION);
        let critical = self.contains(Self::PE_CRITERR) && !CriticalError(critical).is_harmless();
        if self.intersects(broken) || critical {
            RequiredReset::ResetFunction
        } else {
            RequiredReset::None
        }
    }

    /// The causes as text, most serious first.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        const WORDS: [(Causes, &str); 9] = [
            (Causes::GRST, "a reset of the whole card begins"),
            (Causes::HMC_ERR, "the host memory cache failed"),
            (Causes::PE_CRITERR, "critical error of the RDMA engine"),
            (Causes::PE_PUSH, "a push page failed"),
            (Causes::ECC_ERR, "memory error of the card"),
            (Causes::PCI_EXCEPTION, "PCI error"),
            (Causes::MAL_DETECT, "malicious driver detected"),
            (Causes::VFLR, "a virtual function was reset"),
            (Causes::LINK_STAT_CHANGE, "the link changed"),
        ];
        let here = move |(cause, text)| self.contains(cause).then_some(text);
        WORDS.into_iter().filter_map(here)
    }
}

/// Binds the causes, and the AdminQ's events, to `vector`, in the order of control-path 2.6. The
/// owner of the vector decides whether the vector itself is on.
///
/// The mailbox and the sideband queue are left alone: there are no VFs, and this driver drives no
/// clock.
///
/// # Errors
/// [`Error::Wait`](crate::Error::Wait) when the device is gone.
pub fn bind(bus: &(impl Bus + ?Sized), vector: Vector) -> Result<()> {
    PFINT_OICR_ENA.set(bus, 0);
    // Reading clears what an earlier driver left.
    live("PFINT_OICR", PFINT_OICR.read_clear(bus).get())?;
    PFINT_OICR_ENA.set(bus, OICR_ENABLED);
    let control = GLINT_DYN_CTL.at(vector);
    control.set(bus, DYN_CTL_OTHER_CAUSE_SETUP);
    let number = vector.get();
    PFINT_OICR_CTL.write(
        bus,
        PFINT_OICR_CTL::MSIX_INDX.val(number) + PFINT_OICR_CTL::CAUSE_ENA::SET,
    );
    PFINT_FW_CTL.write(
        bus,
        PFINT_FW_CTL::MSIX_INDX.val(number) + PFINT_FW_CTL::CAUSE_ENA::SET,
    );
    let interval = GLINT_ITR::INTERVAL.val(INTERVAL_US / ITR_UNIT_US);
    GLINT_ITR.at(ItrIndex::ZERO, vector).write(bus, interval);
    Ok(())
}

/// Unbinds the causes from their vector.
pub fn unbind(bus: &(impl Bus + ?Sized)) {
    PFINT_OICR_ENA.set(bus, 0);
    PFINT_OICR_CTL.set(bus, 0);
    PFINT_FW_CTL.set(bus, 0);
}

/// Reads the causes, which clears them; also returns what they require.
///
/// # Errors
/// [`Error::Wait`](crate::Error::Wait) when the device is gone.
pub fn take(bus: &(impl Bus + ?Sized)) -> Result<(Causes, RequiredReset)> {
    let read = live("PFINT_OICR", PFINT_OICR.read_clear(bus).get())?;
    let causes = Causes::from_bits_retain(read);
    let critical = if causes.contains(Causes::PE_CRITERR) {
        GLPE_CRITERR.get(bus)
    } else {
        0
    };
    Ok((causes, causes.required_reset(critical)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;
    use e810_hal::RegOffset;
    use std::vec::Vec;

    #[derive(Default)]
    struct Trace(RefCell<Vec<(bool, u32, u32)>>);
    impl Bus for Trace {
        fn read32(&self, off: RegOffset) -> u32 {
            self.0.borrow_mut().push((false, off.get(), 0));
            0
        }
        fn write32(&self, off: RegOffset, value: u32) {
            self.0.borrow_mut().push((true, off.get(), value));
        }
    }

    #[test]
    fn binding_is_in_the_prescribed_order() {
        let bus = Trace::default();
        bind(&bus, Vector::new(5).unwrap()).unwrap();
        let expected = [
            (true, 0x16_C900, 0),
            (false, 0x16_CA00, 0),
            (true, 0x16_C900, 0x3C39_0000),
            (true, 0x16_0014, 0x8600_0000),
            (true, 0x16_CA80, 0x4000_0005),
            (true, 0x16_C800, 0x4000_0005),
            (true, 0x15_4014, 62),
        ];
        assert_eq!(*bus.0.borrow(), expected);
    }

    const Q1_RESOURCES: u32 = 0x0001_024D;

    #[test]
    fn demands_follow_from_causes() {
        assert_eq!(Causes::MAL_DETECT.required_reset(0), RequiredReset::None);
        assert_eq!(
            Causes::PE_CRITERR.required_reset(Q1_RESOURCES),
            RequiredReset::None
        );
        assert_eq!(
            Causes::PE_CRITERR.required_reset(1),
            RequiredReset::ResetFunction
        );
        assert_eq!(
            Causes::HMC_ERR.required_reset(0),
            RequiredReset::ResetFunction
        );
        let both = Causes::HMC_ERR | Causes::GRST;
        assert_eq!(both.required_reset(0), RequiredReset::CardResets);
        let words: Vec<_> = both.words().collect();
        assert_eq!(
            words,
            [
                "a reset of the whole card begins",
                "the host memory cache failed"
            ]
        );
    }
}
